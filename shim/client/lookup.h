// Look-ups and holds in one attachment, without a system call and without a message. The only lock
// is the hold table's. A chunk is present when all parts that larderd keeps are. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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

  protocol::BlockHash at(std::size_t i) const {
    return protocol::BlockHash::from_bytes(bytes + i * stride_bytes);
  }
};

using Parts = std::span<const Part>;

// The number of chunks, from the first on, of which all `parts` are in memory. Without parts: 0.
std::size_t count_present(const Attachment& attachment, Parts parts, const Hashes& hashes);

// The number of the last chunk of which all `parts` are in memory, counted from 1; 0: none.
std::size_t last_present(const Attachment& attachment, Parts parts, const Hashes& hashes);

// The number of chunks, from the first on, of which all `parts` are in memory or in the residency
// filter. `id`: of the hashes' namespace. Without parts: 0.
std::size_t count_reachable(const Attachment& attachment, Parts parts, const Hashes& hashes,
                            const protocol::NamespaceId& id);

// The number of the last chunk of which all `parts` are in memory or in the residency filter,
// counted from 1; 0: none. `id`: of the hashes' namespace.
std::size_t last_reachable(const Attachment& attachment, Parts parts, const Hashes& hashes,
                           const protocol::NamespaceId& id);

// Holds on whole chunks (all `parts`), released on destruction. Move-only; keeps its attachment
// alive.
class HoldSet {
 public:
  // Holds as many chunks as possible from the first on, and reports them to the sidecar as used.
  HoldSet(std::shared_ptr<Attachment> attachment, Parts parts, const Hashes& hashes);
  HoldSet(HoldSet&&) = default;
  HoldSet& operator=(HoldSet&&) = delete;
  ~HoldSet();

  std::size_t chunks() const { return chunks_; }

 private:
  bool hold_chunk(Parts parts, std::uint32_t ns, const protocol::BlockHash& hash,
                  std::vector<EventFields>& uses);

  std::shared_ptr<Attachment> attachment_;
  std::vector<std::uint32_t> places_;
  std::size_t chunks_ = 0;
};

}  // namespace larder::client
