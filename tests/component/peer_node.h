// A larderd with peers and an engine that is attached to it, as a user runs them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/component/larderd_process.h"
#include "tests/unit/client/engine.h"

namespace larder::test {

using client::testing_support::EngineClient;
using client::testing_support::hash_of;
using client::testing_support::hashes_of;
using client::testing_support::PageLayout;

inline const PageLayout kLayout{"peers", 8,     16, 16 << 10,
                                0,       false, 0};  // four places for chunks of 2 MiB
inline constexpr std::uint32_t kChunks = 4;

inline std::chrono::milliseconds since(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               from);
}

struct PeerSettings {
  std::uint16_t port = 0;            // to serve at; 0: no peer is served
  std::vector<std::uint16_t> peers;  // to ask
  std::string pool = "chat";
  std::string tls = "  plaintext: true\n";
  std::string host = "127.0.0.1";  // of this larderd
  std::string members = {};        // HOST:PORT,... to ask before `peers`
};

inline std::string lines_of(const PeerSettings& settings) {
  std::string members = settings.members;
  for (const std::uint16_t port : settings.peers)
    members += (members.empty() ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(port);
  return "pool: " + settings.pool + "\npeers:\n" +
         (settings.port == 0
              ? ""
              : "  listen: " + settings.host + ":" + std::to_string(settings.port) + "\n") +
         (members.empty() ? "" : "  members: " + members + "\n") + settings.tls;
}

// A larderd and an engine that is attached to it.
class Node {
 public:
  explicit Node(const PeerSettings& settings, const std::string& size = "64MiB")
      : larderd(size, "error", LARDERD_PATH, lines_of(settings)),
        engine(larderd.socket(), kLayout) {
    EXPECT_TRUE(engine.client->wait_attached(30'000).ok());
  }
  bool reaches(std::int64_t members) const {
    return eventually([&] {
      return larderd.status_number({"peers", "servers", "reachable"}) == members;
    });
  }
  void store(std::uint64_t first, std::uint32_t count = kChunks) {
    ASSERT_EQ(engine.store(first, count, 30'000).stored, count);
    ASSERT_TRUE(engine.await_present(first, count));
  }
  // How many chunks a look finds, from the first on.
  std::uint64_t probe(std::uint64_t first, std::uint32_t count = kChunks,
                      std::uint32_t deadline_ms = 2000) {
    const std::vector<protocol::BlockHash> hashes = hashes_at(first, count);
    const Result<std::uint64_t> ticket =
        engine.client->lower_tiers().probe(hashes_of(hashes), deadline_ms);
    if (!ticket.ok()) return 0;
    const Result<client::ProbeState> state =
        engine.client->lower_tiers().tier_probes().poll(*ticket, deadline_ms + 1000);
    engine.client->lower_tiers().tier_probes().end(*ticket);
    return state.ok() ? state->chunks : 0;
  }
  Result<std::uint64_t> begin_fetch(std::uint64_t first, std::uint32_t count = kChunks,
                                    std::uint32_t deadline_ms = 5000) {
    const std::vector<protocol::BlockHash> hashes = hashes_at(first, count);
    return engine.client->lower_tiers().fetch(hashes_of(hashes), deadline_ms);
  }
  // The chunks of a fetch that are in memory at its end.
  std::uint32_t end_of_fetch(std::uint64_t ticket) {
    const Result<client::FetchState> state =
        engine.client->lower_tiers().fetches().poll(ticket, 6000);
    EXPECT_TRUE(state.ok() && !state->running);
    return state.ok() ? static_cast<std::uint32_t>(state->chunks) : 0;
  }
  std::uint32_t fetch(std::uint64_t first, std::uint32_t count = kChunks,
                      std::uint32_t deadline_ms = 5000) {
    const Result<std::uint64_t> ticket = begin_fetch(first, count, deadline_ms);
    if (!ticket.ok()) return 0;
    const std::uint32_t chunks = end_of_fetch(*ticket);
    engine.client->lower_tiers().fetches().end(*ticket);
    return chunks;
  }
  // Loads from memory into the engine's pages. Fails the test if a load that is reported done has
  // other bytes.
  bool loads(std::uint64_t first, std::uint32_t count = kChunks) {
    engine.engine.wipe();
    const bool loaded = engine.load(first, count).status == Code::kOk;
    EXPECT_TRUE(!loaded || engine.holds(first, count)) << first << ": WRONG BYTES";
    return loaded;
  }
  // Looks, fetches, loads and evicts.
  bool shares(std::uint64_t first) {
    const bool all = probe(first) == kChunks && fetch(first) == kChunks && loads(first);
    evict(first);
    return all;
  }
  void evict(std::uint64_t first, std::uint32_t count = kChunks) {
    const std::vector<protocol::BlockHash> hashes = hashes_at(first, count);
    EXPECT_TRUE(
        engine.client->lower_tiers().act(protocol::Verb::kEvict, hashes_of(hashes), 5000).ok());
  }

  LarderdProcess larderd;
  EngineClient engine;

 private:
  static std::vector<protocol::BlockHash> hashes_at(std::uint64_t first, std::uint32_t count) {
    std::vector<protocol::BlockHash> hashes;
    for (std::uint32_t i = 0; i < count; ++i) hashes.push_back(hash_of(first + i));
    return hashes;
  }
};

}  // namespace larder::test
