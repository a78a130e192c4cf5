#include "sidecar/store/verify.h"

#include <cstring>
#include <vector>

#include "shim/protocol/checksum.h"

namespace larder::store {

bool verify_payload(const std::byte* slot, const protocol::EntryView& view) {
  const std::uint64_t count = protocol::digest_count(view.payload_bytes, view.piece_bytes);
  std::vector<std::uint64_t> digests(count);
  std::uint64_t* next = digests.data();
  for (std::uint64_t at = 0; at < view.payload_bytes; at += view.piece_bytes) {
    protocol::piece_digests(slot + at, view.piece_bytes, next);
    next += protocol::units_per_piece(view.piece_bytes);
  }
  const std::byte* table = slot + protocol::digest_table_offset(view.payload_bytes);
  return std::memcmp(table, digests.data(), count * sizeof(std::uint64_t)) == 0 &&
         protocol::root_digest(digests.data(), count) == view.root;
}

}  // namespace larder::store
