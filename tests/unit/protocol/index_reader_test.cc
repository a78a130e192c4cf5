#include "shim/protocol/index_reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

namespace larder::protocol {
namespace {

// An index of 8 entries and 2 buckets, filled by hand.
class IndexReaderTest : public testing::Test {
 protected:
  IndexReaderTest()
      : sizes_(index_sizes(8, 2)),
        bytes_(static_cast<std::byte*>(std::aligned_alloc(4096, rounded())), &std::free) {
    std::memset(bytes_.get(), 0, rounded());
    IndexHeader& h = header();
    h.magic = kIndexMagic;
    h.version_major = kVersionMajor;
    h.entry_count = 8;
    h.bucket_count = 2;
    h.arena_bytes = 1 << 20;
    h.entries_offset = sizes_.entries_offset;
    h.buckets_offset = sizes_.buckets_offset;
    h.namespaces_offset = sizes_.namespaces_offset;
  }

  std::size_t rounded() const { return (sizes_.total_bytes + 4095) / 4096 * 4096; }
  IndexHeader& header() { return *reinterpret_cast<IndexHeader*>(bytes_.get()); }
  IndexEntry& entry(std::uint32_t slot) {
    return reinterpret_cast<IndexEntry*>(bytes_.get() + sizes_.entries_offset)[slot];
  }

  Bucket& bucket(std::uint64_t number) {
    return reinterpret_cast<Bucket*>(bytes_.get() + sizes_.buckets_offset)[number];
  }

  void put(const Key& key, std::uint32_t slot, SlotState state, std::uint64_t generation,
           std::uint32_t offset_pages = 0) {
    IndexEntry& e = entry(slot);
    e.hash_lo = key.hash.lo;
    e.hash_hi = key.hash.hi;
    e.scope = key.scope();
    e.place = pack_halves(offset_pages, 4096);
    e.origin = pack_halves(1, 4096);
    e.word = make_word(state, generation);
    const KeyPlace place = key_place(key, 2);
    bucket(place.bucket[0]).cells[slot] = pack_halves(slot + 1, place.tag);
  }

  Result<IndexReader> open() { return IndexReader::open(bytes_.get(), rounded()); }

  IndexSizes sizes_;
  std::unique_ptr<std::byte, decltype(&std::free)> bytes_;
};

constexpr Key kKey{{0x1111, 0x2222333344445555}, 3, 1, 2};

TEST_F(IndexReaderTest, FindsCommittedEntryByItsFullKey) {
  put(kKey, 5, SlotState::kCommitted, 42, 7);
  const Result<IndexReader> reader = open();
  ASSERT_TRUE(reader.ok());
  const auto view = reader->find(kKey);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->slot, 5U);
  EXPECT_EQ(view->generation, 42U);
  EXPECT_EQ(view->offset_bytes, 7U * 4096);
  EXPECT_TRUE(reader->still_committed(5, 42));
  EXPECT_FALSE(reader->still_committed(5, 43));

  Key other = kKey;
  other.shard = 0;
  EXPECT_FALSE(reader->find(other));
  other = kKey;
  other.namespace_handle = 4;
  EXPECT_FALSE(reader->find(other));
}

TEST_F(IndexReaderTest, BatchedProbesMatchFind) {
  const auto present = [&](const Key& key) {
    const Result<IndexReader> reader = open();
    IndexReader::Probe probe = reader->start(key);
    reader->advance(probe);
    EXPECT_EQ(reader->finish(probe), reader->find(key).has_value());
    return reader->finish(probe);
  };
  EXPECT_FALSE(present(kKey));
  put(kKey, 5, SlotState::kCommitted, 42);
  EXPECT_TRUE(present(kKey));
  // the tag is made of the upper half of hash.hi: the bucket names slot 5 for this key too
  Key same_tag = kKey;
  same_tag.hash.lo ^= 0xff00;
  ASSERT_EQ(key_place(same_tag, 2).tag, key_place(kKey, 2).tag);
  EXPECT_FALSE(present(same_tag));
  put(kKey, 5, SlotState::kDying, 42);
  EXPECT_FALSE(present(kKey));
  put(kKey, 5, SlotState::kCommitted, 42);
  bucket(0).cells[5] = bucket(1).cells[5] = 0;
  // the place when the first is full
  bucket(key_place(kKey, 2).bucket[1]).cells[5] = pack_halves(6, key_place(kKey, 2).tag);
  EXPECT_TRUE(present(kKey));
  // hostile: beyond the entries
  bucket(key_place(kKey, 2).bucket[0]).cells[0] = pack_halves(1000, key_place(kKey, 2).tag);
  EXPECT_TRUE(present(kKey));
}

TEST_F(IndexReaderTest, OnlyCommittedEntriesAreVisible) {
  for (const SlotState state :
       {SlotState::kFree, SlotState::kGranted, SlotState::kDying, SlotState::kQuarantined}) {
    put(kKey, 1, state, 9);
    EXPECT_FALSE(open()->find(kKey)) << static_cast<int>(state);
  }
}

TEST_F(IndexReaderTest, EntryPointingOutsideTheArenaIsAMiss) {
  put(kKey, 1, SlotState::kCommitted, 9, 256);  // starts at the arena's end
  EXPECT_FALSE(open()->find(kKey));
}

TEST_F(IndexReaderTest, ImpossibleHeadersAreRefused) {
  header().bucket_count = 3;
  EXPECT_EQ(open().status().code(), Code::kDataLoss);
  header().bucket_count = 2;
  header().entry_count = 1ULL << 40;
  EXPECT_EQ(open().status().code(), Code::kDataLoss);
  header().entry_count = 8;
  header().version_major = 99;
  EXPECT_EQ(open().status().code(), Code::kUnsupported);
  EXPECT_EQ(IndexReader::open(bytes_.get(), 100).status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace larder::protocol
