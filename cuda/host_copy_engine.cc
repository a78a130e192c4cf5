#include "cuda/host_copy_engine.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "shim/base/test_point.h"
#include "shim/protocol/checksum.h"

namespace larder::copy {
namespace {

using Table = std::vector<std::uint64_t>;

// The table of this thread, deleted at the end of the thread. A POSIX key holds it: for a
// thread_local with a destructor glibc ends the engine's process when memory for the registration
// is short.
Table& table_of_thread() {
  static const std::pair<pthread_key_t, int> key = [] {
    pthread_key_t made{};
    const int error =
        ::pthread_key_create(&made, [](void* table) { delete static_cast<Table*>(table); });
    return std::pair(made, error);
  }();
  if (key.second != 0) throw std::bad_alloc();
  if (void* known = ::pthread_getspecific(key.first)) return *static_cast<Table*>(known);
  auto table = std::make_unique<Table>();
  if (::pthread_setspecific(key.first, table.get()) != 0) throw std::bad_alloc();
  return *table.release();
}

// A digest table of this thread, reused from chunk to chunk. Fresh memory for each chunk would cost
// 1 to 2% of the copy in page faults. The table grows to the size for the largest chunk (0.2% of
// the chunk). Valid until the next call on this thread.
std::span<std::uint64_t> scratch_table(std::uint64_t count) {
  Table& table = table_of_thread();
  if (table.size() < count) table.resize(count);
  return {table.data(), count};
}

}  // namespace

Result<std::uint64_t> HostCopyEngine::store(const PieceList& from,
                                            std::span<std::byte> slot) const {
  const std::uint64_t payload_bytes = from.pieces.size() * from.piece_bytes;
  const std::uint64_t units = protocol::units_per_piece(from.piece_bytes);
  const std::span<std::uint64_t> table = scratch_table(from.pieces.size() * units);
  LARDER_POINT(store_begun);
  for (std::size_t i = 0; i < from.pieces.size(); ++i) {
    if (i == from.pieces.size() / 2) LARDER_POINT(store_half);
    // The next piece may lie anywhere, so the loop needs the address for the
    // prefetch.
    loop_.copy_piece(slot.data() + i * from.piece_bytes, from.pieces[i], from.piece_bytes,
                     table.data() + i * units,
                     from.pieces[std::min(i + 1, from.pieces.size() - 1)]);
  }
  // Past the caches: no other code reads the table soon.
  loop_.copy_words(slot.data() + protocol::digest_table_offset(payload_bytes), table.data(),
                   table.size());
  LARDER_POINT(store_digests_written);
  loop_.publish();
  return protocol::root_digest(table.data(), table.size());
}

Status HostCopyEngine::load(std::span<const std::byte> slot, std::uint64_t root,
                            const PieceList& to) const {
  const std::uint64_t payload_bytes = to.pieces.size() * to.piece_bytes;
  const std::uint64_t units = protocol::units_per_piece(to.piece_bytes);
  const std::uint64_t count = to.pieces.size() * units;
  if (slot.size() < protocol::digest_table_offset(payload_bytes) + count * sizeof(std::uint64_t))
    return {Code::kInvalidArgument, "slot is smaller than the pieces and their digest table"};
  const std::byte* const stored = slot.data() + protocol::digest_table_offset(payload_bytes);
  // Digests of the written bytes. The root proves them, whatever happens to the slot meanwhile. The
  // slot's own table is read last, because the loop has prefetched it by then.
  const std::span<std::uint64_t> table = scratch_table(count);
  LARDER_POINT(load_begun);
  for (std::size_t i = 0; i < to.pieces.size(); ++i) {
    if (i == to.pieces.size() / 2) LARDER_POINT(load_half);
    std::uint64_t* const digests = table.data() + i * units;
    // A piece left out still counts in the root, so the digests come from the slot.
    if (to.pieces[i] == nullptr)
      racy_copy(digests, stored + i * units * sizeof(std::uint64_t), units * sizeof(std::uint64_t));
    else
      loop_.copy_piece(to.pieces[i], slot.data() + i * to.piece_bytes, to.piece_bytes, digests,
                       slot.data() + (i + 1) * to.piece_bytes);
  }
  loop_.publish();
  const bool right = protocol::root_digest(table.data(), count) == root &&
                     racy_equal(table.data(), stored, table.size_bytes());
  if (!right)
    return {Code::kDataLoss,
            "the bytes or their digest table do not match the root"};  // mutation: pages-verified
  LARDER_POINT(load_verified);
  return {};
}

Status HostCopyEngine::load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes,
                                  const Fence*) const {
  const std::uint64_t units = protocol::units_per_piece(piece_bytes);
  const std::span<std::uint64_t> digests = scratch_table(units);
  bool right = true;
  for (const ChunkPart& part : parts)
    for (std::size_t i = 0; right && i < part.pieces.size(); ++i) {
      if (part.pieces[i] == nullptr) continue;
      loop_.copy_piece(part.pieces[i], part.packed.data() + i * piece_bytes, piece_bytes,
                       digests.data(), part.packed.data() + (i + 1) * piece_bytes);
      // Compared with a table proven before by verified_digests(), since the slot may change
      // meanwhile.
      right = std::equal(digests.begin(), digests.end(), part.digests.data() + i * units);
    }
  loop_.publish();
  return right ? Status()
               : Status(Code::kDataLoss, "the bytes do not match the digests of their chunk");
}

Status verified_digests(std::span<const std::byte> slot, std::uint64_t payload_bytes,
                        std::uint64_t root, std::span<std::uint64_t> table) {
  const std::uint64_t offset = protocol::digest_table_offset(payload_bytes);
  if (slot.size() < offset + table.size_bytes())
    return {Code::kInvalidArgument, "slot is smaller than the pieces and their digest table"};
  racy_copy(table.data(), slot.data() + offset, table.size_bytes());
  if (protocol::root_digest(table.data(), table.size()) == root) return {};
  return {Code::kDataLoss, "the digest table does not match the root"};
}

std::vector<const HostLoop*> host_loops() {
  std::vector<const HostLoop*> loops;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) loops.push_back(&kAvx2Loop);
#endif
  loops.push_back(&kPortableLoop);
  return loops;
}

const CopyEngine& host_copy_engine() {
  static const HostCopyEngine engine(*host_loops().front());
  return engine;
}

}  // namespace larder::copy
