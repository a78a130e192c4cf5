// bench peer: reads of chunks from a peer's memory, 2 and 16 MiB, against a plain loop between the
// same two processes (peer_raw_arm.h), over TCP and over TLS with certificates of both sides; the
// engine's own look-ups while its larderd serves (peer_own_lookup.h); round trips of a look at 64
// and 1,024 chunks with 20 ms of delay; and the slowest looks at 16 peers beside those at one. Both
// arms take turns, read into slots of the same kind, and every chunk is verified.
//
// The peer is a PeerServer over chunks in memory, without the loop of larderd.
//
// Usage: peer_bench [DIRECTORY of the JSON], or peer_bench --arm (peer_field_bench.py).
// The delay needs root and /dev/net/tun (delayed_link.h).
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <thread>

#include "sidecar/tiers/peer/peer_server.h"
#include "sidecar/tiers/peer/peer_tier.h"
#include "tests/bench/child.h"
#include "tests/bench/delayed_link.h"
#include "tests/bench/peer_own_lookup.h"
#include "tests/bench/peer_raw_arm.h"
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
  std::uint16_t tls_peer = test::free_port(), tls_raw = test::free_port();
  std::array<std::uint16_t, kPeers - 1> others = [] {
    std::array<std::uint16_t, kPeers - 1> ports{};
    for (std::uint16_t& port : ports) port = test::free_port();
    return ports;
  }();
};

// A larderd's server over chunks in memory.
class Peer {
 public:
  Peer(const base::Clock& clock, std::uint16_t port, const net::TlsOptions& tls = {}) {
    peer::ServerOptions options;
    options.self = peer::make_instance("bench", 1);
    options.listen = {"0.0.0.0", port};
    options.tls = tls;
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
void serve(const Ports& ports, const net::TlsOptions& tls) try {
  const base::MonotonicClock clock;
  Peer one(clock, ports.peer), over_tls(clock, ports.tls_peer, tls);
  std::vector<std::vector<std::byte>> chunks;
  for (const Kind& kind : kKinds) one.put(kind, kind.payload >= kMib ? &chunks : nullptr);
  for (const Kind& kind : std::span(kKinds).first(2)) over_tls.put(kind, nullptr);
  std::vector<std::unique_ptr<Peer>> others;
  for (const std::uint16_t port : ports.others) {
    others.push_back(std::make_unique<Peer>(clock, port));
    others.back()->put({4096, 0, kManyKeys}, nullptr);
  }
  const std::jthread raw_over_tls([&] { bench::serve_raw(ports.tls_raw, chunks, tls); });
  bench::serve_raw(ports.raw, chunks, {});
} catch (const std::runtime_error& error) {
  std::fprintf(stderr, "%s\n", error.what());
}

class PeerArm {
 public:
  PeerArm(const base::Clock& clock, std::vector<net::Endpoint> members,
          const net::TlsOptions& tls = {})
      : clock_(clock) {
    peer::ClientOptions options;
    options.tls = tls;
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

// `tls`: of both arms.
void bench_reads(const Ports& ports, const net::TlsOptions& tls, bench::Report& report) {
  const base::MonotonicClock clock;
  bench::RawArm raw(tls.enabled ? ports.tls_raw : ports.raw, tls);
  PeerArm peer(clock, {{"127.0.0.1", tls.enabled ? ports.tls_peer : ports.peer}}, tls);
  std::uint32_t before = 0;
  for (const Kind& kind : std::span(kKinds).first(2)) {
    std::vector<Slot> slots;
    for (std::uint64_t i = 0; i < kind.count; ++i) slots.emplace_back(kind.slot_bytes());
    std::vector<std::span<std::byte>> spans;
    for (Slot& slot : slots) spans.push_back(slot.span());
    const double gb = static_cast<double>(kind.count * kind.slot_bytes()) * 1e-9;
    std::vector<double> raw_speed, peer_speed, ratio;
    for (int round = 0; round < kRounds; ++round) {
      auto start = std::chrono::steady_clock::now();
      raw.read(before, spans);
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
    report.add_row({{"what", tls.enabled ? "read, TLS" : "read"},
                    {"mib_or_keys", mib},
                    {"plain", bench::median(raw_speed)},
                    {"peer", bench::median(peer_speed)},
                    {"ratio", bench::median(ratio)}});
    report.add_goal("peer.get_" + std::to_string(kind.payload / kMib) +
                        (tls.enabled ? "m_tls_vs_raw_tls" : "m_vs_raw"),
                    bench::median(ratio), ">=", tls.enabled ? 0.9 : 0.95);
  }
}

void bench_own_lookups(bench::Report& report) {
  const bench::OwnLookups own = bench::measure_own_lookups();
  report.add_row({{"what", "own_lookup_p99_us"},
                  {"mib_or_keys", 64.0},
                  {"plain", own.alone_p99_us},
                  {"peer", own.serving_p99_us},
                  {"ratio", own.serving_p99_us / own.alone_p99_us}});
  std::printf("own look-ups: %.2f GB/s were served meanwhile\n", own.served_gb_s);
  report.add_goal("peer.own_lookup_p99_us", own.serving_p99_us, "<=", 12);
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
  const bench::OwnCertificate certificate;
  const net::TlsOptions tls = certificate.options();
  {
    const Ports ports;
    const bench::Child servers([&] { serve(ports, tls); });
    std::this_thread::sleep_for(std::chrono::seconds(2));
    bench_reads(ports, {}, report);
    bench_reads(ports, tls, report);
  }
  bench_own_lookups(report);
  const Ports ports;
  DelayedLink link("");
  std::optional<bench::Child> servers;
  link.at_far_end([&] { servers.emplace([&] { serve(ports, tls); }); });
  std::this_thread::sleep_for(std::chrono::seconds(2));
  bench_probes(link, ports, report);
  bench_many(ports, report);
  return report.finish(directory) ? 0 : 1;
}

// A line of the input is one read of all chunks of 2 MiB. The answer is its time in seconds.
int serve_reads() {
  const Ports ports;
  const bench::Child servers([&] { serve(ports, {}); });
  const base::MonotonicClock clock;
  PeerArm peer(clock, {{"127.0.0.1", ports.peer}});
  const Kind& kind = kKinds[0];
  std::vector<Slot> slots;
  for (std::uint64_t i = 0; i < kind.count; ++i) slots.emplace_back(kind.slot_bytes());
  std::puts("ready");
  std::fflush(stdout);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c != '\n') continue;
    peer.probe(kind.first, kind.count);
    const auto start = std::chrono::steady_clock::now();
    peer.read(kind, slots);
    const double seconds = s_since(start);
    verify(kind, slots);
    std::printf("%.9f\n", seconds);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string(argv[1]) == "--arm") return serve_reads();
    return bench_peer(argc > 1 ? argv[1] : "build/bench");
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "bench-peer: %s\n", error.what());
    return 1;
  }
}
