// The next chunk is on its way before the last one is whole: else the link is idle for a round trip
// between two chunks.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "sidecar/tiers/remote/format.h"
#include "tests/patient.h"
#include "tests/unit/tiers/remote/tier_fixture.h"

namespace larder::remote::testing_support {
namespace {

using tiers::testing_support::fill;
using tiers::testing_support::key_of;
using tiers::testing_support::kPieceBytes;
using tiers::testing_support::Slot;

constexpr std::uint64_t kTwoParts = 3 << 20;  // of a chunk's payload

class RemoteOverlapTest : public TierFixture {
 protected:
  RemoteOverlapTest() {
    options_ = test::patient(options_);
    // two for reads, two for writes: the parts of one chunk come, and go, over both
    options_.connections = 4;
    options_.read_bytes_in_flight = options_.write_bytes_in_flight = 2 << 20;
  }
  // Within the server's thread: whether this happens before the server goes on.
  bool wait_for(const std::function<bool()>& happens) const {
    for (const std::uint64_t end = clock_.now_ns() + 5'000'000'000; clock_.now_ns() < end;) {
      if (happens()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  static bool is_part(const FakeServer::Words& words, std::uint64_t number, char part) {
    return words[1].starts_with(record_key("larder", key_of(number)) + ":") &&
           words[1].back() == part;
  }
};

TEST_F(RemoteOverlapTest, NextChunkIsRequestedDuringTheLastPart) {
  open();
  ASSERT_TRUE(eventually([&] { return server_.connections == options_.connections; }))
      << "behind a part on its own connection it waits";
  for (std::uint64_t number = 1; number <= 2; ++number)
    ASSERT_TRUE(loop_->put(number, 1, 1, kTwoParts).ok());
  std::atomic<bool> second_asked = false, in_time = false;
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) -> std::optional<std::string> {
                           if (words[0] != "GET") return std::nullopt;
                           if (is_part(words, 2, '0')) second_asked = true;
                           if (is_part(words, 1, '1'))
                             in_time = wait_for([&] { return second_asked.load(); });
                           return std::nullopt;
                         });
  std::vector<Slot> slots;
  std::vector<tiers::Ticket> tickets;
  for (std::uint64_t number = 1; number <= 2; ++number) {
    slots.emplace_back(protocol::slot_bytes(kTwoParts, kPieceBytes));
    tickets.push_back(loop_->next());
    ASSERT_TRUE(
        tier_->get(tickets.back(), key_of(number), slots.back().span(), loop_->in_ms(20'000)).ok());
  }
  for (const tiers::Ticket ticket : tickets) EXPECT_EQ(loop_->ended(ticket).to_string(), "ok");
  EXPECT_TRUE(in_time);
}

TEST_F(RemoteOverlapTest, NextChunkIsSentBeforeTheLastAnswer) {
  open();
  ASSERT_TRUE(eventually([&] { return server_.connections == options_.connections; }))
      << "behind a part on its own connection it waits";
  ASSERT_TRUE(loop_->put(9, 1, 1, kBytes).ok());
  const std::uint64_t before = tier_->counters().written_bytes;
  std::atomic<bool> in_time = false;
  const HookScope hooked(
      server_, [&](const FakeServer::Words& words) -> std::optional<std::string> {
        // The second one's bytes stand in the socket by then, as far as the socket has room.
        if (words[0] == "SET" && is_part(words, 1, '1'))
          in_time = wait_for(
              [&] { return tier_->counters().written_bytes > before + kTwoParts + (32 << 10); });
        return std::nullopt;
      });
  std::vector<Slot> slots;
  std::vector<tiers::Ticket> tickets;
  for (std::uint64_t number = 1; number <= 2; ++number) {
    slots.emplace_back(protocol::slot_bytes(kTwoParts, kPieceBytes));
    const tiers::ChunkFacts facts = fill(slots.back().span(), number, 1, kTwoParts);
    tickets.push_back(loop_->next());
    ASSERT_TRUE(
        tier_->put(tickets.back(), key_of(number), facts, slots.back().span(), loop_->in_ms(20'000))
            .ok());
  }
  for (const tiers::Ticket ticket : tickets) EXPECT_EQ(loop_->ended(ticket).to_string(), "ok");
  EXPECT_TRUE(in_time);
}

}  // namespace
}  // namespace larder::remote::testing_support
