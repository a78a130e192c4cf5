#include "sidecar/store/verify.h"

#include <cstring>
#include <vector>

#include "shim/protocol/checksum.h"

namespace larder::store {

// Works piece by piece, without a table of all digests: an engine chooses the piece size, and a
// table of many small pieces is larger than the payload.
bool verify_payload(const std::byte* slot, const protocol::EntryView& view) {
  std::vector<std::uint64_t> digests(protocol::units_per_piece(view.piece_bytes));
  const std::size_t digest_bytes = digests.size() * sizeof(std::uint64_t);
  const std::byte* table = slot + protocol::digest_table_offset(view.payload_bytes);
  XXH3_state_t root;
  XXH3_64bits_reset(&root);
  for (std::uint64_t at = 0; at < view.payload_bytes;
       at += view.piece_bytes, table += digest_bytes) {
    protocol::piece_digests(slot + at, view.piece_bytes, digests.data());
    if (std::memcmp(table, digests.data(), digest_bytes) != 0) return false;
    XXH3_64bits_update(&root, digests.data(), digest_bytes);
  }
  return XXH3_64bits_digest(&root) == view.root;
}

}  // namespace larder::store
