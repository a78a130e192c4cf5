// Look-ups and holds in one attachment, without a system call and without a message. The only lock
// is the hold table's. A chunk is present when all of its shards and groups are. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/client/attachment.h"
#include "shim/client/layout.h"

namespace larder::client {

// Block hashes as the engine keeps them: hash i is the first 16 bytes at bytes + i * stride_bytes.
struct Hashes {
  const std::uint8_t* bytes = nullptr;
  std::size_t stride_bytes = 0;
  std::size_t count = 0;
  std::uint32_t ns = 0;  // number of the client's namespace

  protocol::BlockHash at(std::size_t i) const { return protocol::BlockHash::from_bytes(bytes + i * stride_bytes); }
};

// Each chunk of a namespace has a part in every shard and group.
struct ChunkParts {
  std::size_t shards = 0, groups = 0;
};

// The number of chunks, from the first on, that are in memory in every shard and group.
std::size_t count_present(const Attachment& attachment, ChunkParts parts, const Hashes& hashes);

// The number of the last chunk that is in memory in every shard and group, counted from 1; 0: none.
std::size_t last_present(const Attachment& attachment, ChunkParts parts, const Hashes& hashes);

// The number of chunks, from the first on, that are in memory or in the residency filter, in every
// shard and group. `id`: of the hashes' namespace.
std::size_t count_reachable(const Attachment& attachment, ChunkParts parts, const Hashes& hashes,
                            const protocol::NamespaceId& id);

// The number of the last chunk that is in memory or in the residency filter, in every shard and
// group, counted from 1; 0: none. `id`: of the hashes' namespace.
std::size_t last_reachable(const Attachment& attachment, ChunkParts parts, const Hashes& hashes, const protocol::NamespaceId& id);

// Holds on whole chunks (all shards and groups), released on destruction. Move-only; keeps its
// attachment alive.
class HoldSet {
 public:
  // Holds as many chunks as possible from the first on, and reports them to the sidecar as used.
  HoldSet(std::shared_ptr<Attachment> attachment, ChunkParts parts, const Hashes& hashes);
  HoldSet(HoldSet&&) = default;
  HoldSet& operator=(HoldSet&&) = delete;
  ~HoldSet();

  std::size_t chunks() const { return chunks_; }

 private:
  bool hold_chunk(ChunkParts parts, std::uint32_t ns, const protocol::BlockHash& hash);

  std::shared_ptr<Attachment> attachment_;
  std::vector<std::uint32_t> places_;
  std::size_t chunks_ = 0;
};

}  // namespace larder::client
