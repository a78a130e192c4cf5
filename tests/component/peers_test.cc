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
#include "tests/component/certificates.h"
#include "tests/component/command.h"
#include "tests/component/larderd_process.h"
#include "tests/component/server_process.h"
#include "tests/long_form.h"
#include "tests/unit/client/engine.h"

namespace larder::test {
namespace {

using client::testing_support::EngineClient;
using client::testing_support::hash_of;
using client::testing_support::hashes_of;
using client::testing_support::PageLayout;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

const PageLayout kLayout{"peers", 8, 16, 16 << 10, 0, false, 0};  // four places for chunks of 2 MiB
constexpr std::uint32_t kChunks = 4;

milliseconds since(steady_clock::time_point from) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - from);
}

struct PeerSettings {
  std::uint16_t port = 0;            // to serve at; 0: no peer is served
  std::vector<std::uint16_t> peers;  // to ask
  std::string pool = "chat";
  std::string tls = "  plaintext: true\n";
};

std::string lines_of(const PeerSettings& settings) {
  std::string members;
  for (const std::uint16_t port : settings.peers)
    members += (members.empty() ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(port);
  return "pool: " + settings.pool + "\npeers:\n" +
         (settings.port == 0 ? "" : "  listen: 127.0.0.1:" + std::to_string(settings.port) + "\n") +
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
  std::mt19937_64 random(34);
  std::uint32_t whole = 0, cut = 0, in_time = 0;
  milliseconds longest{0};
  const int kills = by_form(100, 1000);
  for (int kill = 0; kill < kills; ++kill) {
    ASSERT_TRUE(eventually([&] { return asker.probe(0) == kChunks; }, 30'000, 5)) << kill;
    const Result<std::uint64_t> ticket = asker.begin_fetch(0);
    ASSERT_TRUE(ticket.ok()) << ticket.status().to_string();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
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

class PeersTlsTest : public testing::Test {
 protected:
  PeersTlsTest() {
    files_.authority("ca");
    files_.authority("other");
    files_.certificate("one", "ca", "DNS:chat.serving.larder");
    files_.certificate("two", "ca", "DNS:chat.serving.larder");
    files_.certificate("stranger", "other", "DNS:chat.serving.larder");
    files_.certificate("named", "ca", "DNS:other.serving.larder");
    files_.short_lived("past", "ca", "DNS:chat.serving.larder", -60);
    files_.common_name("common", "ca", "chat.serving.larder");
  }
  std::string tls(const std::string& certificate, const std::string& ca = "ca") const {
    return "  ca_file: " + files_.file(ca + ".crt") +
           "\n  cert_file: " + files_.file(certificate + ".crt") +
           "\n  key_file: " + files_.file(certificate + ".key") +
           "\n  server_name: chat.serving.larder\n";
  }
  const Certificates files_;
};

TEST_F(PeersTlsTest, MutualCertificatesAllowSharing) {
  const std::uint16_t port = free_port();
  Node holder({port, {}, "chat", tls("one")}), asker({0, {port}, "chat", tls("two")});
  holder.store(0);
  ASSERT_TRUE(asker.reaches(1)) << asker.larderd.status_text({"peers", "reason"});
  EXPECT_EQ(asker.larderd.status_text({"peers", "mode"}), "TLS");
  EXPECT_EQ(asker.probe(0), kChunks);
  EXPECT_EQ(asker.fetch(0), kChunks);
  EXPECT_TRUE(asker.loads(0));
}

// covers F-273, F-279
TEST_F(PeersTlsTest, PeerWithOtherCertificateIsRefused) {
  const std::uint16_t port = free_port();
  Node holder({port, {}, "chat", tls("one")});
  holder.store(0);
  for (const std::string& settings :
       {tls("stranger", "ca"), tls("stranger", "other"), tls("named"), tls("past"), tls("common"),
        std::string("  plaintext: true\n")}) {
    Node asker({0, {port}, "chat", settings});
    EXPECT_TRUE(eventually(
        [&] {
          return !asker.larderd.status_text({"peers", "reason"}).empty();
        },
        10'000))
        << settings;
    EXPECT_EQ(asker.probe(0), 0U) << settings;
    EXPECT_EQ(asker.larderd.status_number({"peers", "servers", "reachable"}), 0) << settings;
  }
  Node well({0, {port}, "chat", tls("two")});
  EXPECT_TRUE(well.reaches(1));
}

// covers F-279
TEST_F(PeersTlsTest, AConnectionEndsWithTheCertificateAndANewFileHeals) {
  for (const bool holds : {true, false}) {
    files_.short_lived("brief", "ca", "DNS:chat.serving.larder", 10);
    const std::uint16_t port = free_port();
    Node holder({port, {}, "chat", tls(holds ? "brief" : "one")}),
        asker({0, {port}, "chat", tls(holds ? "two" : "brief")});
    ASSERT_TRUE(asker.reaches(1)) << asker.larderd.status_text({"peers", "reason"});
    EXPECT_TRUE(eventually(
        [&] {
          const std::string why = asker.larderd.status_text({"peers", "reason"});
          return asker.larderd.status_number({"peers", "servers", "reachable"}) == 0 &&
                 why.find("expired") != std::string::npos;
        },
        20'000))
        << asker.larderd.status_text({"peers", "reason"});
    files_.certificate("fresh", "ca", "DNS:chat.serving.larder");
    files_.rename("fresh.key", "brief.key");
    files_.rename("fresh.crt", "brief.crt");
    EXPECT_TRUE(asker.reaches(1)) << asker.larderd.status_text({"peers", "reason"});
  }
}

// covers F-280
TEST_F(PeersTlsTest, RotatedFilesAreReadAgainWithoutAMiss) {
  files_.certificate("one-new", "other", "DNS:chat.serving.larder");
  files_.certificate("two-new", "other", "DNS:chat.serving.larder");
  files_.certificate("three", "ca", "DNS:chat.serving.larder");
  for (const char* trusted : {"own-one", "own-two", "own-three"})
    run("cp " + files_.file("ca.crt") + " " + files_.file(std::string(trusted) + ".crt"));
  const std::uint16_t port = free_port();
  Node holder({port, {}, "chat", tls("one", "own-one")}),
      asker({0, {port}, "chat", tls("two", "own-two")});
  holder.store(0);
  ASSERT_TRUE(asker.reaches(1)) << asker.larderd.status_text({"peers", "reason"});
  const auto rotate = [&](const std::string& to, const std::string& from) {
    run("cp " + files_.file(from) + " " + files_.file("next"));
    files_.rename("next", to);
    EXPECT_TRUE(asker.shares(0)) << to;
  };
  run("cat " + files_.file("ca.crt") + " " + files_.file("other.crt") + " > " +
      files_.file("both.crt"));
  for (const char* trusted : {"own-one.crt", "own-two.crt"}) rotate(trusted, "both.crt");
  for (const char* end : {".key", ".crt"})
    for (const std::string name : {"one", "two"}) rotate(name + end, name + "-new" + end);
  for (const char* trusted : {"own-one.crt", "own-two.crt"}) rotate(trusted, "other.crt");
  // New connections have the new files alone.
  Node old({0, {port}, "chat", tls("three", "own-three")}),
      fresh({0, {port}, "chat", tls("two", "other")});
  EXPECT_TRUE(fresh.reaches(1)) << fresh.larderd.status_text({"peers", "reason"});
  EXPECT_EQ(old.larderd.status_number({"peers", "servers", "reachable"}), 0);
  EXPECT_TRUE(asker.shares(0)) << "over the connections of before";
  EXPECT_TRUE(fresh.shares(0));
}

}  // namespace
}  // namespace larder::test
