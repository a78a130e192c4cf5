#include "sidecar/store/index_writer.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "shim/protocol/index_reader.h"

namespace larder::store {
namespace {

// As many keys as entries, come and gone many times: no key may find its buckets full, and a reader
// finds each.
TEST(IndexWriterTest, EveryEntryIsUsableAtFullLoad) {
  constexpr std::uint32_t kEntries = 1 << 16;  // a power of two: the greatest load
  const IndexShape shape{kEntries, IndexShape::buckets_for(kEntries), 1 << 20, 1, 1};
  struct Line {
    alignas(64) std::byte bytes[64];
  };
  std::vector<Line> memory((shape.bytes() + 63) / 64);
  auto* data = reinterpret_cast<std::byte*>(memory.data());
  IndexWriter writer(data, shape);
  const Result<protocol::IndexReader> reader = protocol::IndexReader::open(data, shape.bytes());
  ASSERT_TRUE(reader.ok());

  std::mt19937_64 random(20261121);
  std::vector<protocol::Key> keys(kEntries);
  const auto enter = [&](std::uint32_t slot) {
    keys[slot].hash = {random(), random()};
    ASSERT_NE(writer.grant(slot, keys[slot], {0, 4096, 4096}, 1), 0U) << "slot " << slot;
    writer.commit(slot, 7);
  };
  for (std::uint32_t slot = 0; slot < kEntries; ++slot) enter(slot);
  for (std::uint32_t change = 0; change < 4 * kEntries; ++change) {
    const auto slot = static_cast<std::uint32_t>(random() % kEntries);
    writer.set_state(slot, protocol::SlotState::kDying);
    writer.erase_key(slot);
    enter(slot);
  }
  for (std::uint32_t slot = 0; slot < kEntries; ++slot) {
    protocol::IndexReader::Probe probe = reader->start(keys[slot]);
    reader->advance(probe);
    ASSERT_TRUE(reader->finish(probe)) << "slot " << slot;
  }
}

}  // namespace
}  // namespace larder::store
