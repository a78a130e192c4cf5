// The garbage queue alone: which chunks a removal takes, and the puts that a removal waits for.
#include "sidecar/tiers/remote/chunks/garbage_queue.h"

#include <gtest/gtest.h>

#include "tests/unit/tiers/remote/engine_parts.h"

namespace larder::remote::testing_support {
namespace {

using tiers::Operation;
using tiers::testing_support::key_of;
using What = GarbageQueue::Garbage::What;

class GarbageQueueTest : public EngineParts {
 protected:
  bool emptied() {
    return until([&] { return queue_.size() == 0; }, [&] { queue_.maintain(false); });
  }
  GarbageQueue queue_{services_, commands_, operations_};
};

TEST_F(GarbageQueueTest, ForgottenChunkIsRemovedWithItsPart) {
  const Record bad = record_of(1, 7), good = record_of(2, 7);
  store(bad);
  store(good);
  queue_.forget(bad.key, 7);
  EXPECT_FALSE(known_.find(bad.key, 0).has_value());
  EXPECT_TRUE(queue_.was_forgotten(bad));
  EXPECT_FALSE(queue_.was_forgotten(good));
  EXPECT_TRUE(emptied());
  EXPECT_EQ(server_.keys().size(), 2U) << "the good chunk";
  EXPECT_EQ(operations_.counters().records_corrupt, 1U);
}

TEST_F(GarbageQueueTest, ANewerGenerationStays) {
  store(record_of(1, 8));
  queue_.forget(key_of(1), 7);
  EXPECT_TRUE(emptied());
  EXPECT_EQ(server_.keys().size(), 2U);
  EXPECT_EQ(operations_.counters().records_corrupt, 0U);
}

TEST_F(GarbageQueueTest, PartsOfAValidRecordStay) {
  const Record record = record_of(1, 7);
  store(record);
  queue_.leave_behind(record);
  EXPECT_FALSE(queue_.was_forgotten(record)) << "leftover parts hide no record";
  EXPECT_TRUE(emptied());
  EXPECT_EQ(server_.keys().size(), 2U);
  server_.erase(record_key(options_.prefix, record.key));
  queue_.leave_behind(record);
  EXPECT_TRUE(emptied());
  EXPECT_TRUE(server_.keys().empty());
}

TEST_F(GarbageQueueTest, EvictionWaitsForAnEarlierStartedPut) {
  const OpPtr started = add(Operation::kPut, key_of(1)), waiting = add(Operation::kPut, key_of(1));
  started->started = true;
  store(record_of(1, 7));
  queue_.evict(key_of(1));
  EXPECT_TRUE(started->cancelled && !started->done);
  EXPECT_TRUE(waiting->done);
  const OpPtr later = add(Operation::kPut, key_of(1));
  EXPECT_EQ(queue_.before(*started), nullptr);
  EXPECT_NE(queue_.before(*later), nullptr);
  rounds([&] { queue_.maintain(false); });
  EXPECT_EQ(server_.keys().size(), 2U) << "the put may still store the record";
  operations_.begin_record(started);
  operations_.finish(started, {Code::kDeadlineExceeded, "late"});
  rounds([&] { queue_.maintain(false); });
  EXPECT_EQ(server_.keys().size(), 2U) << "the record is in flight";
  EXPECT_TRUE(queue_.removing(later->serial));
  EXPECT_FALSE(queue_.removing(started->serial));
  operations_.end_record(started);
  EXPECT_TRUE(emptied());
  EXPECT_TRUE(server_.keys().empty());
  EXPECT_EQ(queue_.before(*later), nullptr);
}

TEST_F(GarbageQueueTest, RefusedRemovalDoesNotBlockFlush) {
  store(record_of(1, 7));
  const HookScope hooked(server_, [](const FakeServer::Words& words) -> std::optional<std::string> {
    return words[0] == "GETDEL" ? std::optional<std::string>("-NOPERM this user\r\n")
                                : std::nullopt;
  });
  queue_.forget(key_of(1), 7);
  EXPECT_TRUE(queue_.removing(UINT64_MAX));
  const auto put_off = [&] {
    return !queue_.removing(UINT64_MAX) && queue_.next_ns() != UINT64_MAX;
  };
  EXPECT_TRUE(until(put_off, [&] { queue_.maintain(false); }));
  server_.set_hook({});
  EXPECT_TRUE(emptied());
}

TEST_F(GarbageQueueTest, RemovalsAreBoundedAndWaitForReads) {
  const Record record = record_of(1, 7);
  queue_.remove(What::kWriting, record);
  queue_.remove(What::kWriting, record);
  EXPECT_EQ(queue_.size(), 1U) << "equal removals are one";
  for (std::size_t i = 0; i <= GarbageQueue::kMost; ++i) queue_.leave_behind(record);
  EXPECT_EQ(queue_.size(), GarbageQueue::kMost);
  rounds([&] { queue_.maintain(true); });
  EXPECT_EQ(queue_.size(), GarbageQueue::kMost) << "reads fail";
  EXPECT_EQ(queue_.next_ns(), UINT64_MAX);
}

// A lost removal: a reader finds the bad chunk once more, and its removal is taken.
TEST_F(GarbageQueueTest, FullQueueTakesRemovalsOnceTheServerAnswers) {
  const Record bad = record_of(1, 7);
  store(bad);
  for (std::size_t i = 0; i < GarbageQueue::kMost; ++i) queue_.leave_behind(record_of(i + 2, 7));
  queue_.remove(What::kWriting, bad);
  EXPECT_FALSE(queue_.was_forgotten(bad));
  EXPECT_TRUE(emptied());
  EXPECT_EQ(server_.keys().size(), 2U);
  queue_.remove(What::kWriting, bad);
  EXPECT_TRUE(queue_.was_forgotten(bad));
  EXPECT_TRUE(emptied());
  EXPECT_TRUE(server_.keys().empty());
}

}  // namespace
}  // namespace larder::remote::testing_support
