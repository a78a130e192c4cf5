// Looking up and holding chunks in one attachment. No system call, no message, no lock but the hold table's. Thread-safe.
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

// How many chunks, from the first on, are there in every shard and group.
std::size_t count_present(const Attachment& attachment, const NamespaceSpec& spec, const Hashes& hashes);

// How many, from the first on, are there or below memory as larderd shows it, in every shard and group. `id`: of the hashes'
// namespace.
std::size_t count_reachable(const Attachment& attachment, const NamespaceSpec& spec, const Hashes& hashes,
                            const protocol::NamespaceId& id);

// Holds on whole chunks (every shard and group of them), given up on destruction. Move-only; keeps its attachment alive.
class HoldSet {
 public:
  // Holds as many as it can from the first on, and tells the sidecar that they were used.
  HoldSet(std::shared_ptr<Attachment> attachment, const NamespaceSpec& spec, const Hashes& hashes);
  HoldSet(HoldSet&&) = default;
  HoldSet& operator=(HoldSet&&) = delete;
  ~HoldSet();

  std::size_t chunks() const { return chunks_; }

 private:
  bool hold_chunk(const NamespaceSpec& spec, std::uint32_t ns, const protocol::BlockHash& hash);

  std::shared_ptr<Attachment> attachment_;
  std::vector<std::uint32_t> places_;
  std::size_t chunks_ = 0;
};

}  // namespace larder::client
