// The index in an engine's view: arbitrary bytes over a good index, then look-ups.
//
// The sidecar writes the index, but a dying sidecar, a bad memory module or a stranger's file must
// not lead an engine astray. Promises: an index is opened only if its tables lie within the file;
// every found chunk lies within the arena; every look-up ends.
#include "shim/protocol/index_reader.h"
#include "tests/fuzz/input.h"
#include "tests/unit/store/store_fixture.h"

namespace {

using namespace larder;
using namespace larder::fuzz;

constexpr std::uint64_t kSlots = 4;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static constexpr std::uint32_t kSession = 1;
  static store::testing_support::StoreBox* const good = [] {
    auto* const box = new store::testing_support::StoreBox(kSlots);
    box->add_session(kSession);
    for (std::uint64_t n = 0; n < kSlots; ++n) box->put(kSession, n);
    return box;
  }();
  static const std::size_t good_bytes =
      reinterpret_cast<const protocol::IndexHeader*>(good->index())->size_bytes;

  Input input(data, size);
  const std::size_t index_bytes = std::min<std::size_t>(input.take<std::uint32_t>(), good_bytes);
  // Of exactly this size, so that the sanitizer sees a reader leave the buffer; words must be
  // aligned.
  const auto memory = std::make_unique<std::uint64_t[]>((index_bytes + 7) / 8);
  auto* const bytes = reinterpret_cast<std::byte*>(memory.get());
  std::memcpy(bytes, good->index(), index_bytes);
  while (!input.empty()) {
    const std::size_t at = input.take<std::uint16_t>();
    const std::span<const std::byte> patch = input.take_bytes(1 + input.byte() % 16);
    if (at + patch.size() <= index_bytes && !patch.empty())
      std::memcpy(bytes + at, patch.data(), patch.size());
  }

  const Result<protocol::IndexReader> reader = protocol::IndexReader::open(bytes, index_bytes);
  if (!reader.ok()) return 0;
  const std::uint64_t arena_bytes =
      reinterpret_cast<const protocol::IndexHeader*>(bytes)->arena_bytes;
  for (std::uint64_t n = 0; n < kSlots + 1; ++n) {
    protocol::IndexReader::Probe probe = reader->start(good->key(n));
    reader->advance(probe);
    const bool present = reader->finish(probe);
    const auto found = reader->find(good->key(n));
    must(present || !found, "a found chunk is present");
    if (!found) continue;
    must(found->key == good->key(n), "a found chunk is the requested one");
    must(found->offset_bytes <= arena_bytes &&
             found->payload_bytes <= arena_bytes - found->offset_bytes,
         "a found chunk lies within the arena");
    must(reader->dead() || reader->still_committed(found->slot, found->generation),
         "a found chunk in a live index is committed");
  }
  for (std::uint32_t slot = 0; slot < 64; ++slot) (void)reader->read(slot);
  return 0;
}
