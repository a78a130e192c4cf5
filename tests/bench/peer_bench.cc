// bench peer: reads of chunks from a peer's memory, 2 and 16 MiB, against a plain TCP loop between
// the same two processes; round trips of a look at 64 and 1,024 chunks with 20 ms of delay;
// and the slowest looks at 16 peers beside those at one. Both arms take turns, read into slots of
// the same kind, and every chunk is verified.
//
// The plain loop keeps four requests open and calls recv() for each whole chunk: the best that one
// connection of this machine gives. The peer is a PeerServer over chunks in memory, without the
// loop of larderd.
//
// Usage: peer_bench [DIRECTORY of the JSON].
// The delay needs root and /dev/net/tun (delayed_link.h).
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <thread>

#include "sidecar/base/tcp_listener.h"
#include "sidecar/tiers/peer/peer_server.h"
#include "sidecar/tiers/peer/peer_tier.h"
#include "tests/bench/child.h"
#include "tests/bench/delayed_link.h"
#include "tests/bench/report.h"
#include "tests/component/server_process.h"
#include "tests/conformance/tier_chunks.h"
#include "tests/unit/tiers/peer/chunk_holder.h"

namespace {

using namespace larder;
using bench::DelayedLink;
using tiers::testing_support::key_of;
using tiers::testing_support::kPieceBytes;
using tiers::testing_support::Slot;

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::size_t kSmallKeys = 1024;
constexpr std::uint64_t kOneWayUs = 10'000;
constexpr int kRounds = 11, kProbes = 20, kManyProbes = 300;
constexpr std::size_t kPeers = 16;
constexpr std::uint64_t kManyKeys = 64;
constexpr std::chrono::milliseconds kPause(300);

// Chunks of one size: the numbers in keys, and the number of them.
struct Kind {
  std::uint64_t payload, first, count;
  std::uint64_t slot_bytes() const {
    return protocol::slot_bytes(payload, std::min(payload, kPieceBytes));
  }
};
constexpr Kind kKinds[] = {{2 * kMib, 10'000, 16}, {16 * kMib, 20'000, 4}, {4096, 0, kSmallKeys}};

void must(bool held, const std::string& what) {
  if (!held) throw std::runtime_error(what);
}
double s_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Ports {
  std::uint16_t peer = test::free_port(), raw = test::free_port();
  std::array<std::uint16_t, kPeers - 1> others = [] {
    std::array<std::uint16_t, kPeers - 1> ports{};
    for (std::uint16_t& port : ports) port = test::free_port();
    return ports;
  }();
};

// Sends the chunk of each number that is asked for.
void serve_raw(std::uint16_t port, const std::vector<std::vector<std::byte>>& chunks) {
  const Result<base::TcpListener> listener = base::listen_tcp("0.0.0.0", port, "raw");
  for (;;) {
    base::Accepted accepted = base::accept_next(listener->socket.get());
    if (!accepted.socket.valid()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    const Fd socket = std::move(accepted.socket);
    ::fcntl(socket.get(), F_SETFL, 0);
    std::uint32_t number = 0;
    while (::recv(socket.get(), &number, sizeof(number), MSG_WAITALL) == sizeof(number)) {
      const std::vector<std::byte>& chunk = chunks[number];
      for (std::size_t at = 0; at < chunk.size();) {
        const ssize_t sent =
            ::send(socket.get(), chunk.data() + at, chunk.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) break;
        at += static_cast<std::size_t>(sent);
      }
    }
  }
}

// A larderd's server over chunks in memory.
class Peer {
 public:
  Peer(const base::Clock& clock, std::uint16_t port) {
    peer::ServerOptions options;
    options.self = peer::make_instance("bench", 1);
    options.listen = {"0.0.0.0", port};
    Result<std::unique_ptr<peer::PeerServer>> started = peer::PeerServer::start(clock, options);
    must(started.ok(), started.status().text());
    server_ = *std::move(started);
    holder_ = std::make_unique<peer::testing_support::ChunkHolder>(server_->exchange());
  }
  ~Peer() { server_->stop(); }
  // Adds the bytes of each chunk to `copies`, unless null.
  void put(const Kind& kind, std::vector<std::vector<std::byte>>* copies) {
    for (std::uint64_t n = kind.first; n < kind.first + kind.count; ++n) {
      Slot slot(kind.slot_bytes());
      const tiers::ChunkFacts facts = tiers::testing_support::fill(
          slot.span(), n, 1, kind.payload, std::min(kind.payload, kPieceBytes));
      holder_->put(key_of(n), facts, slot.span());
      if (copies != nullptr) copies->emplace_back(slot.span().begin(), slot.span().end());
    }
  }

 private:
  std::unique_ptr<peer::PeerServer> server_;
  std::unique_ptr<peer::testing_support::ChunkHolder> holder_;
};

// All servers, in a process of their own.
void serve(const Ports& ports) try {
  const base::MonotonicClock clock;
  Peer one(clock, ports.peer);
  std::vector<std::vector<std::byte>> chunks;
  for (const Kind& kind : kKinds) one.put(kind, kind.payload >= kMib ? &chunks : nullptr);
  std::vector<std::unique_ptr<Peer>> others;
  for (const std::uint16_t port : ports.others) {
    others.push_back(std::make_unique<Peer>(clock, port));
    others.back()->put({4096, 0, kManyKeys}, nullptr);
  }
  serve_raw(ports.raw, chunks);
} catch (const std::runtime_error& error) {
  std::fprintf(stderr, "%s\n", error.what());
}

class RawArm {
 public:
  explicit RawArm(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const auto connects = [&] {
      return ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) ==
             0;
    };
    bool connected = connects();  // the servers make their chunks first
    for (int i = 0; i < 30 && !connected; ++i) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      connected = connects();
    }
    must(connected, "no plain connection");
  }
  // Reads all chunks of the kind, of which `before` others come first in the server's list.
  void read(const Kind& kind, std::uint32_t before, std::vector<Slot>& slots) {
    constexpr std::uint32_t kOpen = 4;
    std::uint32_t asked = 0;
    for (std::uint32_t got = 0; got < kind.count; ++got) {
      for (; asked < kind.count && asked < got + kOpen; ++asked) {
        const std::uint32_t number = before + asked;
        must(::send(socket_.get(), &number, sizeof(number), MSG_NOSIGNAL) == sizeof(number),
             "the plain loop ends");
      }
      const std::span<std::byte> slot = slots[got].span();
      must(::recv(socket_.get(), slot.data(), slot.size(), MSG_WAITALL) ==
               static_cast<ssize_t>(slot.size()),
           "the plain loop ends");
    }
  }

 private:
  Fd socket_;
};

class PeerArm {
 public:
  PeerArm(const base::Clock& clock, std::vector<net::Endpoint> members) : clock_(clock) {
    peer::ClientOptions options;
    options.self = peer::make_instance("bench", 2);
    const std::size_t count = members.size();
    options.members = std::move(members);
    Result<std::unique_ptr<tiers::Tier>> opened = peer::open_peer_tier(clock, options);
    must(opened.ok(), opened.status().to_string());
    tier_ = *std::move(opened);
    loop_.emplace(*tier_, clock);
    for (int i = 0; i < 10'000 && tier_->state().servers_reachable != count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    must(tier_->state().servers_reachable == count,
         "the peers are not reached: " + tier_->state().reason);
  }
  // A busy machine may answer a probe after its 50 ms: the chunks then count as absent. Few probes
  // may end so.
  void probe(std::uint64_t first, std::uint64_t count) {
    std::vector<tiers::ChunkKey> keys;
    for (std::uint64_t n = first; n < first + count; ++n) keys.push_back(key_of(n));
    const std::vector<bool> there = loop_->probe(keys);
    ++probes_;
    late_ += static_cast<std::uint64_t>(std::ranges::count(there, true)) == count ? 0 : 1;
    must(late_ <= 2 + probes_ / 20, "chunks were not found in " + std::to_string(late_) + " of " +
                                        std::to_string(probes_) + " probes at " +
                                        std::to_string(count));
  }
  void read(const Kind& kind, std::vector<Slot>& slots) {
    std::vector<tiers::Ticket> tickets;
    for (std::uint64_t i = 0; i < kind.count; ++i) {
      tickets.push_back(loop_->next());
      must(tier_->get(tickets.back(), key_of(kind.first + i), slots[i].span(), loop_->in_ms(20'000))
               .ok(),
           "a get was refused");
    }
    for (const tiers::Ticket ticket : tickets) must(loop_->ended(ticket).ok(), "a get failed");
  }

 private:
  const base::Clock& clock_;
  std::unique_ptr<tiers::Tier> tier_;
  std::optional<tiers::testing_support::Loop> loop_;
  std::size_t probes_ = 0, late_ = 0;
};

void verify(const Kind& kind, std::vector<Slot>& slots) {
  for (std::uint64_t i = 0; i < kind.count; ++i) {
    Slot expected(kind.slot_bytes());
    const tiers::ChunkFacts facts =
        tiers::testing_support::fill(expected.span(), kind.first + i, 1, kind.payload, kPieceBytes);
    must(tiers::testing_support::holds(slots[i].span(), kind.first + i, facts), "WRONG BYTES");
    std::ranges::fill(slots[i].span(), std::byte{0});
  }
}

void bench_reads(const Ports& ports, bench::Report& report) {
  const base::MonotonicClock clock;
  RawArm raw(ports.raw);
  PeerArm peer(clock, {{"127.0.0.1", ports.peer}});
  std::uint32_t before = 0;
  for (const Kind& kind : std::span(kKinds).first(2)) {
    std::vector<Slot> slots;
    for (std::uint64_t i = 0; i < kind.count; ++i) slots.emplace_back(kind.slot_bytes());
    const double gb = static_cast<double>(kind.count * kind.slot_bytes()) * 1e-9;
    std::vector<double> raw_speed, peer_speed, ratio;
    for (int round = 0; round < kRounds; ++round) {
      auto start = std::chrono::steady_clock::now();
      raw.read(kind, before, slots);
      raw_speed.push_back(gb / s_since(start));
      verify(kind, slots);
      peer.probe(kind.first, kind.count);  // as a probe of the engine before
      start = std::chrono::steady_clock::now();
      peer.read(kind, slots);
      peer_speed.push_back(gb / s_since(start));
      verify(kind, slots);
      ratio.push_back(peer_speed.back() / raw_speed.back());
    }
    before += static_cast<std::uint32_t>(kind.count);
    const auto mib = static_cast<double>(kind.payload / kMib);
    report.add_row({{"what", "read"},
                    {"mib_or_keys", mib},
                    {"plain", bench::median(raw_speed)},
                    {"peer", bench::median(peer_speed)},
                    {"ratio", bench::median(ratio)}});
    report.add_goal("peer.get_" + std::to_string(kind.payload / kMib) + "m_vs_raw",
                    bench::median(ratio), ">=", 0.95);
  }
}

// `plain` is a round trip in ms: the time to connect once more.
void bench_probes(DelayedLink& link, const Ports& ports, bench::Report& report) {
  const base::MonotonicClock clock;
  link.delay_us(kOneWayUs);
  const double trip_ms = 2 * static_cast<double>(kOneWayUs) / 1000;
  PeerArm peer(clock, {{DelayedLink::kFarAddress, ports.peer}});
  for (const std::uint64_t keys : {std::uint64_t{64}, std::uint64_t{kSmallKeys}}) {
    std::vector<double> times;
    peer.probe(0, keys);
    for (int i = 0; i < kProbes; ++i) {
      std::this_thread::sleep_for(kPause);
      const auto start = std::chrono::steady_clock::now();
      peer.probe(0, keys);
      times.push_back(1000 * s_since(start));
    }
    const double trips = bench::median(times) / trip_ms;
    report.add_row({{"what", "look"},
                    {"mib_or_keys", static_cast<double>(keys)},
                    {"plain", trip_ms},
                    {"peer", bench::median(times)},
                    {"ratio", trips}});
    report.add_goal("peer.rtts_" + std::to_string(keys), trips, "<", keys == 64 ? 1.3 : 1.7);
  }
}

// Looks at chunks that all 16 have.
void bench_many(const Ports& ports, bench::Report& report) {
  const base::MonotonicClock clock;
  std::vector<net::Endpoint> all{{DelayedLink::kFarAddress, ports.peer}};
  PeerArm one(clock, all);
  for (const std::uint16_t port : ports.others) all.push_back({DelayedLink::kFarAddress, port});
  PeerArm many(clock, all);
  const auto slowest = [](std::vector<double>& times) {
    std::ranges::sort(times);
    return times[times.size() * 99 / 100];
  };
  std::vector<double> of_one, of_many;
  for (int i = 0; i < kManyProbes; ++i) {
    for (const auto& [arm, times] : {std::pair(&one, &of_one), std::pair(&many, &of_many)}) {
      const auto start = std::chrono::steady_clock::now();
      arm->probe(0, kManyKeys);
      times->push_back(1000 * s_since(start));
    }
  }
  const double factor = slowest(of_many) / slowest(of_one);
  report.add_row({{"what", "look_p99"},
                  {"mib_or_keys", static_cast<double>(kManyKeys)},
                  {"plain", slowest(of_one)},
                  {"peer", slowest(of_many)},
                  {"ratio", factor}});
  report.add_goal("peer.look_16_peers_p99_factor", factor, "<=", 2);
}

int bench_peer(const std::string& directory) {
  bench::Report report("peer");
  {
    const Ports ports;
    const bench::Child servers([&] { serve(ports); });
    std::this_thread::sleep_for(std::chrono::seconds(2));
    bench_reads(ports, report);
  }
  const Ports ports;
  DelayedLink link("");
  std::optional<bench::Child> servers;
  link.at_far_end([&] { servers.emplace([&] { serve(ports); }); });
  std::this_thread::sleep_for(std::chrono::seconds(2));
  bench_probes(link, ports, report);
  bench_many(ports, report);
  return report.finish(directory) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return bench_peer(argc > 1 ? argv[1] : "build/bench");
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "bench-peer: %s\n", error.what());
    return 1;
  }
}
