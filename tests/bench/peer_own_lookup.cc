#include "tests/bench/peer_own_lookup.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/child.h"
#include "tests/bench/processors.h"
#include "tests/bench/report.h"
#include "tests/component/server_process.h"
#include "tests/unit/client/engine.h"

namespace larder::bench {
namespace {

using client::testing_support::EngineClient;
using client::testing_support::hash_of;
using client::testing_support::hashes_of;
using client::testing_support::PageLayout;
using Clock = std::chrono::steady_clock;

const PageLayout kLayout{"peers", 8, 16, 16 << 10, 0, false, 0};  // 2 MiB a chunk, four places
constexpr std::uint32_t kPlaces = 4, kChunks = 64, kWaitMs = 20'000;
constexpr std::uint64_t kChunkBytes = 2 << 20;
constexpr int kRounds = 9, kLookups = 4000;
constexpr std::chrono::microseconds kBetween(20);

void must(bool held, const char* what) {
  if (!held) throw std::runtime_error(what);
}

config::Config larderd(const std::string& name) {
  config::Config config;
  config.pool = "bench";
  config.socket = "/tmp/larder-bench-" + name + "-" + std::to_string(::getpid()) + ".sock";
  config.http.listen = "";
  config.http.admin_socket = config.socket + ".admin";
  config.memory.shm_name = "larder-bench-" + name + "-" + std::to_string(::getpid());
  config.memory.size_bytes = 2 * kChunks * kChunkBytes;
  config.memory.keep_on_exit = false;
  config.peers.plaintext = true;
  return config;
}

std::vector<protocol::BlockHash> all_chunks() {
  std::vector<protocol::BlockHash> hashes;
  for (std::uint32_t i = 0; i < kChunks; ++i) hashes.push_back(hash_of(i));
  return hashes;
}

// Reads all chunks from the peer again and again.
void read_for_ever(const std::string& socket, std::atomic<std::uint64_t>& read_bytes) {
  EngineClient engine(socket, kLayout);
  if (!engine.client->wait_attached(kWaitMs).ok()) return;
  const std::vector<protocol::BlockHash> hashes = all_chunks();
  client::LowerTiers& tiers = engine.client->lower_tiers();
  for (;;) {
    const Result<std::uint64_t> probe = tiers.probe(hashes_of(hashes), kWaitMs);
    if (probe.ok()) static_cast<void>(tiers.tier_probes().poll(*probe, kWaitMs).ok());
    if (probe.ok()) tiers.tier_probes().end(*probe);
    const Result<std::uint64_t> fetch = tiers.fetch(hashes_of(hashes), kWaitMs);
    if (!fetch.ok()) continue;
    const Result<client::FetchState> state = tiers.fetches().poll(*fetch, kWaitMs);
    tiers.fetches().end(*fetch);
    if (state.ok()) read_bytes += state->chunks * kChunkBytes;
    static_cast<void>(tiers.act(protocol::Verb::kEvict, hashes_of(hashes), kWaitMs).ok());
  }
}

// The p99 of a round of look-ups, in microseconds.
double round_us(const EngineClient& engine, const std::vector<protocol::BlockHash>& hashes) {
  std::vector<double> times;
  for (int i = 0; i < kLookups; ++i) {
    const auto start = Clock::now();
    const std::uint64_t present = engine.client->lookups().present(hashes_of(hashes));
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    must(present == kChunks, "own chunks were not found");
    std::this_thread::sleep_for(kBetween);  // as between steps of a scheduler
  }
  return percentile(times, 0.99);
}

// On a thread of its own, so that the process is not bound to one processor afterwards.
OwnLookups measure(const std::string& socket, const Child& reader,
                   const std::atomic<std::uint64_t>& read_bytes) {
  stay_on(0);
  EngineClient engine(socket, kLayout);
  must(engine.client->wait_attached(kWaitMs).ok(), "larderd does not answer");
  for (std::uint32_t first = 0; first < kChunks; first += kPlaces)
    must(engine.store(first, kPlaces, kWaitMs).stored == kPlaces, "own chunks were not stored");
  must(engine.await_present(0, kPlaces), "own chunks were not stored");
  const auto end = Clock::now() + std::chrono::seconds(30);
  while (read_bytes == 0 && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  must(read_bytes != 0, "the peer reads nothing");
  std::vector<double> alone, serving, gb_s;
  const std::vector<protocol::BlockHash> hashes = all_chunks();
  for (int round = 0; round < kRounds; ++round) {
    reader.signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the last fetch ends
    alone.push_back(round_us(engine, hashes));
    reader.signal(SIGCONT);
    const std::uint64_t before = read_bytes;
    const auto start = Clock::now();
    serving.push_back(round_us(engine, hashes));
    const std::chrono::duration<double> took = Clock::now() - start;
    gb_s.push_back(static_cast<double>(read_bytes - before) * 1e-9 / took.count());
  }
  return {median(alone), median(serving), median(gb_s)};
}

}  // namespace

OwnLookups measure_own_lookups() {
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  must(shared != MAP_FAILED, "no shared memory");
  auto& read_bytes = *new (shared) std::atomic<std::uint64_t>(0);
  config::Config own = larderd("own"), peer = larderd("peer");
  own.peers.listen_host = "127.0.0.1";
  own.peers.listen_port = test::free_port();
  own.peers.listen = "127.0.0.1:" + std::to_string(own.peers.listen_port);
  peer.peers.members = own.peers.listen;
  peer.peers.member_hosts = {{"127.0.0.1", own.peers.listen_port}};
  const auto aside = [](const auto& work) {
    return [work] {
      stay_off(0);
      work();
    };
  };
  const Child own_larderd(aside([&] { run_sidecar(own); }));
  const Child peer_larderd(aside([&] { run_sidecar(peer); }));
  const Child reader(aside([&] { read_for_ever(peer.socket, read_bytes); }));
  return std::async(std::launch::async, [&] { return measure(own.socket, reader, read_bytes); })
      .get();
}

}  // namespace larder::bench
