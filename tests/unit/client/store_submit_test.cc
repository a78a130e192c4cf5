// Stores without a wait: the guarantees for the owner of the pages.
#include "tests/unit/client/stores_fixture.h"

namespace larder::client {
namespace {

using protocol::CommitRecord;
using protocol::MessageType;
using protocol::SlotList;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{10'000};

class StoreSubmitTest : public testing_support::StoresTest {
 protected:
  // The one that ends next.
  StoreCompletion next(Stores& stores) {
    const std::vector<StoreCompletion> done = stores.poll(1, kPatience);
    EXPECT_EQ(done.size(), 1U);
    return done.empty() ? StoreCompletion() : done.front();
  }
  std::vector<CommitRecord> committed() {
    return session_.receive<SlotList, CommitRecord>(MessageType::kCommit);
  }
};

TEST_F(StoreSubmitTest, SubmittedStoreRunsWhileItsPagesAreRead) {
  Stores stores(pool_, gated_, spec_, pages_);
  const auto refs = granted(stores, 2);
  const Result<std::uint64_t> ticket = stores.submit(0);
  ASSERT_TRUE(ticket.ok());
  ASSERT_TRUE(gated_.gate.await_entered(1));
  EXPECT_TRUE(stores.poll(8, milliseconds(20)).empty()) << "a copy is under way";
  EXPECT_EQ(stores.running(), 1U);
  stores.asked(session_.attachment, refs);
  EXPECT_EQ(session_.receive_slots(MessageType::kStillWriting).size(), 2U);
  gated_.gate.open();
  const StoreCompletion done = next(stores);
  EXPECT_EQ(done.ticket, *ticket);
  EXPECT_EQ(done.result.stored, 2U);
  EXPECT_EQ(done.result.bytes, 2 * engine_.group().payload_bytes());
  EXPECT_EQ(committed().size(), 2U);
  EXPECT_EQ(stores.running(), 0U);
  EXPECT_TRUE(stores.poll(8, {}).empty()) << "a ticket ends once";
}

TEST_F(StoreSubmitTest, LaterGrantIsCopiedOnArrival) {
  Stores stores(pool_, gated_, spec_, pages_);
  gated_.gate.open();
  const std::uint32_t request = begun(stores, 3);
  ASSERT_TRUE(stores.submit(60'000).ok());
  EXPECT_TRUE(stores.poll(8, milliseconds(20)).empty());
  grant(stores, request, 3);
  EXPECT_EQ(next(stores).result.stored, 3U);
  EXPECT_EQ(committed().size(), 3U);
}

// covers F-048
TEST_F(StoreSubmitTest, GrantAfterTheDeadlineIsReturned) {
  Stores stores(pool_, gated_, spec_, pages_);
  const std::uint32_t request = begun(stores, 3);
  ASSERT_TRUE(stores.submit(20).ok());
  EXPECT_EQ(next(stores).result.refused, 3U);
  grant(stores, request, 3);
  EXPECT_EQ(session_.receive_slots(MessageType::kDisown).size(), 3U);
  EXPECT_TRUE(session_.silent());
  EXPECT_EQ(stores.running(), 0U);
}

// covers F-050
TEST_F(StoreSubmitTest, ChunksUnreadWhenPagesAreReusedAreNotCommitted) {
  Stores stores(pool_, gated_, spec_, pages_);
  // the first chunk is read to its end, the second one half way, the third not at all
  gated_.free_turns = 1;
  const auto refs = granted(stores, 3);
  const Result<std::uint64_t> ticket = stores.submit(0);
  ASSERT_TRUE(gated_.gate.await_entered(2));
  stores.overtake(*ticket);
  engine_.wipe();  // the pages are others' now
  gated_.gate.open();
  const StoreResult result = next(stores).result;
  EXPECT_EQ(result.stored, 1U);
  EXPECT_EQ(result.refused, 2U);
  const auto given_back = session_.receive_slots(MessageType::kDisown);
  ASSERT_EQ(given_back.size(), 2U);
  EXPECT_EQ(given_back[0].slot, refs[1].slot);
  EXPECT_EQ(given_back[1].slot, refs[2].slot);
  const std::vector<CommitRecord> kept = committed();
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].slot, refs[0].slot);
}

TEST_F(StoreSubmitTest, StoreOvertakenBeforeItsGrantReturnsTheGrant) {
  Stores stores(pool_, gated_, spec_, pages_);
  const std::uint32_t request = begun(stores, 2);
  const Result<std::uint64_t> ticket = stores.submit(60'000);
  stores.overtake(*ticket);
  EXPECT_EQ(next(stores).result.refused, 2U);
  grant(stores, request, 2);
  EXPECT_EQ(session_.receive_slots(MessageType::kDisown).size(), 2U);
}

TEST_F(StoreSubmitTest, LostSessionEndsSubmittedStores) {
  Stores stores(pool_, gated_, spec_, pages_);
  granted(stores, 1);
  begun(stores, 2);
  ASSERT_TRUE(stores.submit(60'000).ok());
  ASSERT_TRUE(gated_.gate.await_entered(1));
  session_.attachment->outbox().close();
  stores.lost(session_.attachment);
  gated_.gate.open();
  EXPECT_EQ(next(stores).result.refused, 3U);
  EXPECT_EQ(stores.running(), 0U);
}

TEST_F(StoreSubmitTest, SubmitOverTheLimitReturnsItsGrants) {
  Stores stores(pool_, gated_, spec_, pages_);
  for (std::size_t i = 0; i < Stores::kMaxSubmitted; ++i) ASSERT_TRUE(stores.submit(0).ok());
  granted(stores, 2);
  EXPECT_EQ(stores.submit(0).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(session_.receive_slots(MessageType::kDisown).size(), 2U);
  EXPECT_EQ(stores.poll(Stores::kMaxSubmitted, {}).size(), Stores::kMaxSubmitted);
  EXPECT_TRUE(stores.submit(0).ok());
  EXPECT_EQ(next(stores).result.refused, 2U) << "grants that were given back are reported as well";
}

TEST_F(StoreSubmitTest, KeysWithoutAnswerAreBounded) {
  Stores stores(pool_, gated_, spec_, pages_);
  constexpr std::uint32_t kEach = protocol::kMaxKeysPerReserve;
  const std::uint32_t first = begun(stores, kEach);
  for (std::uint32_t keys = kEach; keys < protocol::kMaxGrants; keys += kEach) begun(stores, kEach);
  stores.begin(session_.attachment, transfer(1), true);
  EXPECT_TRUE(session_.silent());
  stores.granted(session_.attachment, first, {});
  begun(stores, 1);
  stores.abandon();
  EXPECT_EQ(stores.finish(0).refused, protocol::kMaxGrants + 2) << "also the ones given back";
}

TEST_F(StoreSubmitTest, ClosedPoolEndsSubmittedStores) {
  Stores stores(pool_, gated_, spec_, pages_);
  granted(stores, 2);
  ASSERT_TRUE(stores.submit(0).ok());
  ASSERT_TRUE(gated_.gate.await_entered(1));
  std::thread opener([&] { gated_.gate.open(); });
  pool_.close();
  opener.join();
  const StoreResult result = next(stores).result;
  EXPECT_EQ(result.stored + result.refused, 2U);
}

TEST_F(StoreSubmitTest, FinishDoesNotCoverSubmittedStores) {
  Stores stores(pool_, gated_, spec_, pages_);
  granted(stores, 2);
  ASSERT_TRUE(stores.submit(0).ok());
  EXPECT_EQ(stores.finish(0).stored, 0U);
  stores.abandon();
  gated_.gate.open();
  EXPECT_EQ(next(stores).result.stored, 2U);
}

}  // namespace
}  // namespace larder::client
