// A remote tier on a fake server that is in a hurry, driven by a test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "sidecar/tiers/remote/chunks/remote_tier.h"
#include "tests/conformance/tier_chunks.h"
#include "tests/unit/tiers/remote/fake_server.h"

namespace larder::remote::testing_support {

inline constexpr std::uint64_t kBytes = 8192;  // of a chunk's payload: one part

class TierFixture : public testing::Test {
 protected:
  explicit TierFixture(FakeServer::Kind kind = FakeServer::Kind::kStandalone) : server_({}, kind) {
    options_.answer_ms = options_.greet_ms = 300;
    options_.refused_ms = 50;
    options_.trial_bytes_per_s = 0;
    if (kind == FakeServer::Kind::kStandalone) {
      options_.unix_path = server_.socket();
      return;
    }
    options_.mode = Mode::kCluster;
    options_.endpoints = {{"127.0.0.1", server_.port()}};
  }
  void open() {
    Result<std::unique_ptr<tiers::Tier>> tier = open_remote_tier(clock_, options_);
    ASSERT_TRUE(tier.ok()) << tier.status().to_string();
    tier_ = *std::move(tier);
    loop_.emplace(*tier_, clock_);
  }
  bool eventually(const std::function<bool()>& happens, std::uint64_t ms = 30'000) {
    for (const std::uint64_t end = clock_.now_ns() + ms * 1'000'000; clock_.now_ns() < end;) {
      if (happens()) return true;
      loop_ ? loop_->collect(5) : std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return happens();
  }
  // From now on commands of this kind get this answer, except those of probes.
  void answer(const std::string& verb, const std::string& bytes, const std::string& of_key = "") {
    server_.set_hook(
        [verb, bytes, of_key](const FakeServer::Words& words) -> std::optional<std::string> {
          if (words[0] != verb || (!of_key.empty() && words[1] != of_key) ||
              words[1].ends_with(":probe"))
            return std::nullopt;
          return bytes;
        });
  }

  base::MonotonicClock clock_;
  FakeServer server_;
  RemoteOptions options_;
  std::unique_ptr<tiers::Tier> tier_;
  std::optional<tiers::testing_support::Loop> loop_;
};

// One of several larderd on one server.
struct Node {
  explicit Node(const RemoteOptions& options)
      : tier(*open_remote_tier(clock, options)), loop(*tier, clock) {}
  // A put requested now; its slot is kept until the node is gone.
  tiers::Ticket put(std::uint64_t number, std::uint64_t generation, std::uint64_t ms = 20'000,
                    std::uint32_t since_s = 0) {
    tiers::testing_support::Slot& slot = slots.emplace_back(protocol::slot_bytes(kBytes, kBytes));
    tiers::ChunkFacts facts =
        tiers::testing_support::fill(slot.span(), number, generation, kBytes, kBytes);
    facts.since_s = since_s;
    const tiers::Ticket ticket = loop.next();
    EXPECT_TRUE(tier->put(ticket, tiers::testing_support::key_of(number), facts, slot.span(),
                          loop.in_ms(ms))
                    .ok());
    return ticket;
  }
  base::MonotonicClock clock;
  std::deque<tiers::testing_support::Slot> slots;
  std::unique_ptr<tiers::Tier> tier;
  tiers::testing_support::Loop loop;
};

}  // namespace larder::remote::testing_support
