// Several larderd on one server, in the most harmful order: no larderd takes away another's new
// chunk, and of two simultaneous puts no part is left over.
#include <gtest/gtest.h>

#include <atomic>

#include "sidecar/tiers/remote/format.h"
#include "tests/unit/tiers/remote/tier_fixture.h"

namespace larder::remote::testing_support {
namespace {

using tiers::testing_support::fill;
using tiers::testing_support::key_of;
using tiers::testing_support::Slot;

class RemoteSharedTest : public TierFixture {
 protected:
  // Runs `act` once, before the first such command is carried out. Others' commands go on
  // meanwhile.
  [[nodiscard]] HookScope before(const std::function<bool(const FakeServer::Words&)>& like,
                                 const std::function<void()>& act) {
    done_ = false;
    return {server_,
            [this, like, act](const FakeServer::Words& words) -> std::optional<std::string> {
              if (words.size() > 1 && !words[1].ends_with(":probe") && like(words) &&
                  !done_.exchange(true))
                act();
              return std::nullopt;
            }};
  }

  std::atomic<bool> done_ = false;
  const std::string record_ = record_key("larder", key_of(1));
};

// covers F-198
TEST_F(RemoteSharedTest, PutOfAStoredChunkWritesNothing) {
  options_.known_chunks = 1;
  Node one(options_), other(options_);
  ASSERT_TRUE(one.loop.put(1, 5, 1, kBytes).ok() && one.loop.put(2, 5, 1, kBytes).ok());
  EXPECT_FALSE(one.tier->probe(key_of(1)).has_value()) << "it knows of one chunk alone";
  std::atomic<int> sets = 0;
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) -> std::optional<std::string> {
                           sets += words[0] == "SET" && !words[1].ends_with(":probe");
                           return std::nullopt;
                         });
  EXPECT_TRUE(one.loop.put(1, 5, 1, kBytes).ok());
  EXPECT_EQ(one.tier->counters().puts_present, 1U);
  // In another larderd the same bytes are of another generation.
  Slot slot(protocol::slot_bytes(kBytes, kBytes));
  tiers::ChunkFacts facts = fill(slot.span(), 1, 5, kBytes, kBytes);
  facts.generation = 77;
  const tiers::Ticket ticket = other.loop.next();
  ASSERT_TRUE(other.tier->put(ticket, key_of(1), facts, slot.span(), other.loop.in_ms(5000)).ok());
  EXPECT_TRUE(other.loop.ended(ticket).ok());
  EXPECT_EQ(sets, 0);
  EXPECT_EQ(other.tier->probe(key_of(1)).value_or(tiers::ChunkFacts{}).generation, 5U)
      << "as it stands there";
  EXPECT_TRUE(other.loop.put(1, 6, 1, kBytes).ok());
  EXPECT_EQ(sets, 2) << "other bytes: a part and a record";
  EXPECT_TRUE(one.loop.get(1, 1, kBytes).ok());
}

// covers F-198
TEST_F(RemoteSharedTest, GetContinuesWithAChunkReplacedMeanwhile) {
  Node one(options_), other(options_);
  ASSERT_TRUE(other.loop.put(1, 1, 1, kBytes).ok());
  const HookScope hooked =
      before([](const FakeServer::Words& words) { return words[0] == "GET"; },
             [&] { EXPECT_TRUE(other.loop.put(1, 2, 1, kBytes).ok() && other.loop.flush().ok()); });
  EXPECT_EQ(one.loop.get(1, 1, kBytes).to_string(), "ok");
  EXPECT_TRUE(done_);
  EXPECT_EQ(one.tier->probe(key_of(1)).value_or(tiers::ChunkFacts{}).generation, 2U);
  EXPECT_TRUE(one.loop.flush().ok());
  EXPECT_EQ(server_.keys().size(), 2U);
}

// covers F-198
TEST_F(RemoteSharedTest, MissingPartDoesNotRemoveAConcurrentPut) {
  Node one(options_), other(options_);
  std::uint64_t generation = 0;
  // before the second look; between that and the removal
  for (const char* verb : {"GETRANGE", "GETDEL"}) {
    ASSERT_TRUE(one.loop.put(1, ++generation, 1, kBytes).ok());
    server_.erase(server_.part_of(record_));
    std::atomic<int> probes = 0;
    ++generation;
    const HookScope hooked = before(
        [&](const FakeServer::Words& words) {
          return words[0] == verb && (words[0] == "GETDEL" || ++probes == 2);
        },
        [&] {
          EXPECT_TRUE(other.loop.put(1, generation, 1, kBytes).ok() && other.loop.flush().ok());
        });
    EXPECT_EQ(one.loop.get(1, 1, kBytes).code(), Code::kNotFound);
    EXPECT_TRUE(one.loop.flush().ok());
    EXPECT_TRUE(eventually([&] { return done_ && server_.keys().size() == 2; })) << verb;
    EXPECT_TRUE(eventually([&] { return one.loop.get(1, 1, kBytes).ok(); })) << verb;
    EXPECT_TRUE(other.loop.get(1, 1, kBytes).ok()) << verb;
    ASSERT_TRUE(one.loop.clear().ok());
  }
}

// covers F-198
TEST_F(RemoteSharedTest, BadBytesDoNotRemoveAConcurrentPut) {
  Node one(options_), other(options_);
  ASSERT_TRUE(one.loop.put(1, 1, 1, kBytes).ok());
  const HookScope hooked =
      before([](const FakeServer::Words& words) { return words[0] == "GETDEL"; },
             [&] { EXPECT_TRUE(other.loop.put(1, 2, 1, kBytes).ok() && other.loop.flush().ok()); });
  one.tier->forget(key_of(1), 1);
  EXPECT_TRUE(one.loop.flush().ok());
  EXPECT_TRUE(done_);
  EXPECT_TRUE(eventually([&] { return server_.keys().size() == 2; }));
  EXPECT_TRUE(one.loop.get(1, 1, kBytes).ok());
}

// Put back over a third larderd's put, the value would take its place.
// covers F-198
TEST_F(RemoteSharedTest, RestoredRecordYieldsToANewerPut) {
  Node one(options_), other(options_);
  ASSERT_TRUE(one.loop.put(1, 1, 1, kBytes).ok());
  std::atomic<int> steps = 0;
  const HookScope hooked(
      server_, [&](const FakeServer::Words& words) -> std::optional<std::string> {
        const bool put_back = words[0] == "SET" && words[1] == record_ && words[3] == "NX";
        const bool taken = words[0] == "GETDEL" && steps == 0;
        if (!taken && !(put_back && steps == 1)) return std::nullopt;
        ++steps;
        EXPECT_TRUE(other.loop.put(1, taken ? 2 : 3, 1, kBytes).ok());
        return std::nullopt;
      });
  one.tier->forget(key_of(1), 1);
  EXPECT_TRUE(one.loop.flush().ok());
  EXPECT_TRUE(eventually([&] { return steps == 2 && server_.keys().size() == 2; }));
  EXPECT_TRUE(one.loop.get(1, 1, kBytes).ok());
  EXPECT_EQ(one.tier->probe(key_of(1)).value_or(tiers::ChunkFacts{}).generation, 3U);
}

// covers F-198
TEST_F(RemoteSharedTest, FailedPutRemovesOnlyItsOwnParts) {
  Node one(options_), other(options_);
  std::atomic<int> step = 0;
  const HookScope hooked(
      server_, [&](const FakeServer::Words& words) -> std::optional<std::string> {
        if (words[0] == "SET" && words[1] == record_ && step == 0) {
          step = 1;
          return "-ERR out of luck\r\n";
        }
        if (words[0] == "UNLINK" && step == 1) {
          step = 2;
          EXPECT_TRUE(
              other.loop.put(1, 1, 1, kBytes).ok());  // the same bytes of the same generation
        }
        return std::nullopt;
      });
  EXPECT_FALSE(one.loop.put(1, 1, 1, kBytes).ok());
  EXPECT_TRUE(eventually([&] { return step == 2 && server_.keys().size() == 2; }));
  EXPECT_TRUE(other.loop.get(1, 1, kBytes).ok());
  EXPECT_TRUE(one.loop.get(1, 1, kBytes).ok());
}

// covers F-198
TEST_F(RemoteSharedTest, OneOfTwoConcurrentPutsStays) {
  Node one(options_), other(options_);
  for (const std::uint64_t generation : {1, 2}) {  // the same bytes, and others
    const HookScope hooked = before(
        [&](const FakeServer::Words& words) { return words[0] == "SET" && words[1] == record_; },
        [&] { EXPECT_TRUE(other.loop.put(1, generation, 1, kBytes).ok()); });
    EXPECT_TRUE(one.loop.put(1, 1, 1, kBytes).ok());
    EXPECT_TRUE(done_);
    EXPECT_TRUE(eventually([&] { return server_.keys().size() == 2; }))
        << "the parts of who came first";
    EXPECT_TRUE(one.loop.get(1, 1, kBytes).ok() && other.loop.get(1, 1, kBytes).ok());
    ASSERT_TRUE(one.loop.clear().ok() && other.loop.clear().ok());
  }
}

// The answer to its record comes all the same: only this answer names the replaced record.
// covers F-198
TEST_F(RemoteSharedTest, LatePutRemovesThePartsItReplaced) {
  options_.answer_ms = 5000;
  Node one(options_), other(options_);
  ASSERT_TRUE(other.loop.put(1, 1, 1, kBytes).ok());
  std::atomic<bool> given_up = false;
  const HookScope hooked = before(
      [&](const FakeServer::Words& words) { return words[0] == "SET" && words[1] == record_; },
      [&] {
        for (int i = 0; i < 1000 && !given_up; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
      });
  EXPECT_EQ(one.loop.ended(one.put(1, 2, 200)).code(), Code::kDeadlineExceeded);
  given_up = true;
  EXPECT_TRUE(eventually([&] { return done_ && server_.keys().size() == 2; }))
      << server_.keys().size();
  EXPECT_TRUE(one.loop.flush().ok());
  EXPECT_EQ(server_.keys().size(), 2U);
  EXPECT_TRUE(other.loop.get(1, 1, kBytes).ok());
}

// covers F-198
TEST_F(RemoteSharedTest, RecordRemovedWithoutAnswerLeavesNoParts) {
  Node one(options_);
  ASSERT_TRUE(one.loop.put(1, 1, 1, kBytes).ok());
  const HookScope hooked =
      before([](const FakeServer::Words& words) { return words[0] == "GETDEL"; },
             [&] {
               server_.erase(record_);
               server_.hang_up();
             });
  EXPECT_TRUE(one.tier->evict(key_of(1)).ok());
  EXPECT_TRUE(eventually([&] { return done_ && server_.keys().empty(); }));
}

}  // namespace
}  // namespace larder::remote::testing_support
