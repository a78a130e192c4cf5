// larderd as a user runs them, each with memory of its own, that share chunks straight from memory
// to memory: what one stored the other loads, byte by byte, also when the holder is killed or
// stopped in the middle, or the bytes are changed on the way.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <chrono>
#include <random>
#include <thread>

#include "shim/base/fd.h"
#include "tests/component/command.h"
#include "tests/component/peer_node.h"
#include "tests/component/server_process.h"
#include "tests/long_form.h"

namespace larder::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

TEST(PeersTest, ChunkStoredByOneNodeIsLoadedByTheOther) {
  const std::uint16_t one_port = free_port(), two_port = free_port();
  Node one({one_port, {one_port, two_port}}), two({two_port, {one_port, two_port}});
  ASSERT_TRUE(one.reaches(1) && two.reaches(1)) << "each knows itself";
  EXPECT_TRUE(two.engine.client->lower_tiers().shares());
  one.store(0);
  EXPECT_EQ(two.probe(0), kChunks);
  EXPECT_EQ(two.fetch(0), kChunks);
  EXPECT_TRUE(two.loads(0));
  two.store(100);
  EXPECT_EQ(one.probe(100), kChunks);
  EXPECT_EQ(one.fetch(100), kChunks);
  EXPECT_TRUE(one.loads(100));
  EXPECT_TRUE(eventually([&] {
    return one.larderd.status_number({"peer_serving", "gets", "asked"}) == kChunks;
  }));
  EXPECT_TRUE(eventually([&] {
    return two.larderd.status_number({"peers", "gets", "ok"}) == kChunks;
  }));
  EXPECT_TRUE(eventually([&] {
    return one.larderd.status_number({"peer_serving", "held_bytes"}) == 0;
  })) << "given back";
  const std::string& socket = one.larderd.socket();
  const std::string admin = socket.substr(0, socket.size() - 5) + ".admin";
  const Outcome screen = run(std::string(LARDERCTL_PATH) + " peers --socket " + admin);
  EXPECT_THAT(screen.text,
              AllOf(HasSubstr("reachable       1 of 1"), HasSubstr("sent            8")))
      << screen.text;
}

// One hop: of three larderd in a row, the first gets no chunk of the last.
TEST(PeersTest, ChunksTravelOneHopOnly) {
  const std::uint16_t ports[] = {free_port(), free_port()};
  Node last({ports[1], {}}), middle({ports[0], {ports[1]}}), first({0, {ports[0]}});
  ASSERT_TRUE(middle.reaches(1) && first.reaches(1));
  last.store(0);
  EXPECT_EQ(first.probe(0), 0U);
  EXPECT_EQ(middle.fetch(0), 0U) << "nobody has looked";
  ASSERT_EQ(middle.probe(0), kChunks);
  ASSERT_EQ(middle.fetch(0), kChunks);
  EXPECT_EQ(first.probe(0), kChunks) << "in the memory of the middle one now";
}

// covers F-265
TEST(PeersTest, PeerKilledDuringTransferYieldsNoWrongByte) {
  const std::uint16_t port = free_port();
  Node holder({port, {}}), asker({0, {port}});
  holder.store(0);
  // Kills come at any moment of a fetch and shortly after it, however fast the machine is.
  ASSERT_TRUE(asker.reaches(1) && asker.shares(0));
  ASSERT_EQ(asker.probe(0), kChunks);
  const auto begun = steady_clock::now();
  ASSERT_EQ(asker.fetch(0), kChunks);
  const auto fetch_us =
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - begun).count();
  asker.evict(0);
  std::mt19937_64 random(34);
  std::uint32_t whole = 0, cut = 0, in_time = 0;
  milliseconds longest{0};
  const int kills = by_form(100, 1000);
  for (int kill = 0; kill < kills; ++kill) {
    ASSERT_TRUE(eventually([&] { return asker.probe(0) == kChunks; }, 30'000, 5)) << kill;
    const Result<std::uint64_t> ticket = asker.begin_fetch(0);
    ASSERT_TRUE(ticket.ok()) << ticket.status().to_string();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (2 * fetch_us + 1000)));
    steady_clock::time_point killed;
    std::uint32_t chunks = 0;
    holder.larderd.kill_and_restart(SIGKILL, [&] {
      killed = steady_clock::now();
      chunks = asker.end_of_fetch(*ticket);
      const milliseconds took = since(killed);
      longest = std::max(longest, took);
      in_time += took <= milliseconds(20) ? 1 : 0;
    });
    ++(chunks == kChunks ? whole : cut);
    EXPECT_TRUE(chunks == 0 || asker.loads(0, chunks)) << kill;
    asker.engine.client->lower_tiers().fetches().end(*ticket);
    asker.evict(0);
  }
  EXPECT_GT(whole, 0U);
  EXPECT_GT(cut, 0U) << "no kill came in the middle";
  std::printf("%u whole, %u cut; %u of %d answers within 20 ms of the death, the longest %d ms\n",
              whole, cut, in_time, kills, static_cast<int>(longest.count()));
  EXPECT_GE(in_time, kills * 9 / 10) << "a busy machine apart, all";
  EXPECT_LT(longest, milliseconds(1000));
}

// covers F-266
TEST(PeersTest, StoppedPeerCostsOneDeadline) {
  const std::uint16_t port = free_port();
  Node holder({port, {}}), asker({0, {port}});
  holder.store(0);
  ASSERT_TRUE(asker.reaches(1));
  ASSERT_EQ(asker.probe(0), kChunks);
  holder.larderd.process().signal(SIGSTOP);
  const auto from = steady_clock::now();
  EXPECT_EQ(asker.fetch(0), 0U) << "found a moment ago";
  EXPECT_LT(since(from), milliseconds(1500)) << "0.6 s where the machine is idle";
  milliseconds quickest{1000};
  for (int i = 0; i < 10; ++i) {
    const auto begun = steady_clock::now();
    EXPECT_EQ(asker.probe(0), 0U);
    quickest = std::min(quickest, since(begun));
  }
  EXPECT_LT(quickest, milliseconds(20)) << "nobody waits again";
  holder.larderd.process().signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return asker.probe(0) == kChunks && asker.fetch(0) == kChunks; },
                         30'000, 50));
  EXPECT_TRUE(asker.loads(0));
}

// A fetch that waited for the stopped one once ended all looks at peers for seconds.
// covers F-275
TEST(PeersTest, StoppedPeerCostsItsOwnChunksOnly) {
  const std::uint16_t ports[] = {free_port(), free_port()};
  Node still({ports[0], {}}), well({ports[1], {}}), asker({0, {ports[0], ports[1]}});
  still.store(0);
  well.store(100);
  ASSERT_TRUE(asker.reaches(2));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(asker.shares(100)) << "the speed is known";
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(eventually([&] { return asker.probe(0) == kChunks; }, 30'000, 20));
    still.larderd.process().signal(SIGSTOP);
    EXPECT_EQ(asker.fetch(0, kChunks, 300), 0U) << "found a moment ago";
    for (int j = 0; j < 3; ++j) EXPECT_TRUE(asker.shares(100)) << i << " " << j;
    still.larderd.process().signal(SIGCONT);
    asker.evict(0);
  }
}

// covers F-276
TEST(PeersTest, DropForgetsOffersOfPeers) {
  const std::uint16_t port = free_port();
  Node holder({port, {}}), asker({0, {port}});
  holder.store(0);
  ASSERT_TRUE(asker.reaches(1));
  ASSERT_EQ(asker.probe(0), kChunks);
  const std::string& socket = asker.larderd.socket();
  const std::string admin = socket.substr(0, socket.size() - 5) + ".admin";
  const Outcome cleared = run(std::string(LARDERCTL_PATH) + " clear --socket " + admin);
  EXPECT_EQ(cleared.status, 0) << cleared.text;
  EXPECT_EQ(asker.fetch(0), 0U) << "within the 2 s of the offers";
  EXPECT_EQ(asker.probe(0), kChunks) << "the holder has the chunks still";
}

// covers F-272
TEST(PeersTest, AnotherPoolIsRefusedByName) {
  const std::uint16_t port = free_port();
  Node holder({port, {}}), asker({0, {port}, "other"});
  holder.store(0);
  EXPECT_TRUE(eventually([&] {
    return asker.larderd.status_text({"peers", "reason"}).find("another pool") != std::string::npos;
  })) << asker.larderd.status_text({"peers", "reason"});
  EXPECT_EQ(asker.probe(0), 0U);
  EXPECT_TRUE(eventually([&] {
    return holder.larderd.status_number({"peer_serving", "connections", "refused"}) > 0;
  }));
}

// covers F-270
TEST(PeersTest, AFloodOfSocketsKeepsNoPeerOut) {
  const std::uint16_t port = free_port();
  Node holder({port, {}}), asker({0, {port}});
  holder.store(0);
  ASSERT_TRUE(asker.reaches(1));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<Fd> flood;
  for (int i = 0; i < 600; ++i) {
    flood.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        ::connect(flood.back().get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)), 0);
  }
  EXPECT_EQ(asker.probe(0), kChunks);
  EXPECT_EQ(asker.fetch(0), kChunks);
  EXPECT_TRUE(asker.loads(0));
}

// Passes bytes on, and changes some of those that the server sends.
class ChangingProxy {
 public:
  explicit ChangingProxy(std::uint16_t server)
      : port_(free_port()), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    where_.sin_family = AF_INET;
    where_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    where_.sin_port = htons(port_);
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&where_), sizeof(where_)),
              0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    where_.sin_port = htons(server);
    accepting_ = std::jthread([this](const std::stop_token& stop) { accept(stop); });
  }
  std::uint16_t port() const { return port_; }
  // How many bytes pass between two that are changed, on average; 0: none is changed.
  void change_every(std::uint64_t bytes) { every_ = bytes; }
  std::uint64_t changed() const { return changed_; }

 private:
  void accept(const std::stop_token& stop) {
    std::vector<std::jthread> passing;
    while (!stop.stop_requested()) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      auto near = std::make_shared<Fd>(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      passing.emplace_back([this, near](const std::stop_token& ended) { pass(*near, ended); });
    }
  }
  void pass(const Fd& near, const std::stop_token& stop) {
    const Fd far(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(far.get(), reinterpret_cast<const sockaddr*>(&where_), sizeof(where_)) != 0)
      return;
    std::vector<char> bytes(256 << 10);
    std::mt19937_64 random(near.get());
    while (!stop.stop_requested()) {
      pollfd both[] = {{near.get(), POLLIN, 0}, {far.get(), POLLIN, 0}};
      if (::poll(both, 2, 20) <= 0) continue;
      for (int side = 0; side < 2; ++side) {
        if ((both[side].revents & (POLLIN | POLLHUP)) == 0) continue;
        const ssize_t got = ::recv(both[side].fd, bytes.data(), bytes.size(), 0);
        if (got <= 0) return;
        const std::uint64_t every = every_;
        if (side == 1 && every != 0)
          for (std::uint64_t at = random() % (2 * every); at < static_cast<std::uint64_t>(got);
               at += 1 + random() % (2 * every)) {
            bytes[at] = static_cast<char>(bytes[at] ^ (1 + random() % 255));
            ++changed_;
          }
        for (ssize_t sent = 0; sent < got;) {
          const ssize_t more = ::send(both[1 - side].fd, bytes.data() + sent,
                                      static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
          if (more <= 0) return;
          sent += more;
        }
      }
    }
  }

  const std::uint16_t port_;
  Fd listener_;
  sockaddr_in where_{};
  std::atomic<std::uint64_t> every_{0}, changed_{0};
  std::jthread accepting_;
};

// covers F-267
TEST(PeersTest, BytesCorruptedInTransitAreAMiss) {
  const std::uint16_t port = free_port();
  Node holder({port, {}});
  ChangingProxy proxy(port);
  Node asker({0, {proxy.port()}});
  holder.store(0);
  ASSERT_TRUE(asker.reaches(1));
  proxy.change_every(1 << 20);
  int loaded = 0;
  const std::uint64_t enough = by_form(200, 100'000);
  const auto until = steady_clock::now() + std::chrono::seconds(by_form(40, 3600));
  while (proxy.changed() < enough && steady_clock::now() < until) {
    if (asker.probe(0) != 0) {
      const std::uint32_t chunks = asker.fetch(0);
      loaded += chunks != 0 && asker.loads(0, chunks) ? 1 : 0;
    }
    asker.evict(0);
  }
  EXPECT_GE(proxy.changed(), enough);
  proxy.change_every(0);
  EXPECT_TRUE(eventually(
      [&] { return asker.probe(0) == kChunks && asker.fetch(0) == kChunks && asker.loads(0); },
      30'000, 50));
  std::printf("%llu bytes changed, %d loads all the same\n",
              static_cast<unsigned long long>(proxy.changed()), loaded);
}

}  // namespace
}  // namespace larder::test
