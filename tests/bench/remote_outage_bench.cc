// bench remote-outage: an engine's wait for a chunk in larderd's memory while the shared backend is
// stopped, slow or full, against the wait with a healthy backend.
//
// An engine looks up and loads one chunk after the other through liblarder, as fast as possible.
// The backend has work meanwhile: the engine stores another chunk every 2 ms, which larderd writes
// down, and probes for chunks that only the backend could have, without a wait, like vLLM's
// scheduler. The four states of the backend take turns. Each one is measured from its beginning, so
// the second in which larderd takes a silent server for alive counts too:
//   well     a real redis-server, which evicts the least recently used values
//   stopped  SIGSTOP
//   slow     answers come at a byte a second on each connection
//   full     every SET is answered -OOM
// Between two turns the bench waits until probes are answered and all writes have ended. Every
// loaded byte is compared.
//
// The engine has a processor of its own, as in bench lookup. larderd, the server and the proxy in
// front of the server have the others.
//
// Usage: remote_outage_bench [DIRECTORY of the JSON]
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "shim/client/client.h"
#include "tests/bench/child.h"
#include "tests/bench/processors.h"
#include "tests/bench/report.h"
#include "tests/bench/small_client.h"
#include "tests/bench/trickle_proxy.h"
#include "tests/component/server_process.h"

namespace {

using namespace larder;
using bench::bench_hash;
using bench::Child;
using Clock = std::chrono::steady_clock;
using test::ServerProcess;

constexpr std::uint64_t kPieceBytes = 16 << 10;
constexpr std::uint32_t kPieces = 8;  // of a chunk: 128 KiB
constexpr std::uint64_t kChunkBytes = kPieceBytes * kPieces;
constexpr std::uint64_t kHot = 64;  // chunks that are loaded in turn
constexpr std::uint64_t kArenaBytes = 256 << 20;
constexpr std::uint64_t kProbeChunks = 64;
constexpr std::uint32_t kProbeMs = 50;
constexpr auto kStoreEvery = std::chrono::milliseconds(2);
constexpr auto kTurn = std::chrono::milliseconds(2000);
constexpr auto kSettled = std::chrono::milliseconds(300);
constexpr auto kRecovery = std::chrono::seconds(60);
constexpr int kRounds = 9;
constexpr std::uint32_t kWaitMs = 5000;
constexpr unsigned kEnginesProcessor = 0;
const char* const kMemory = "512mb";

void must(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "bench-remote-outage: %s\n", what);
  std::exit(1);
}

// Word `at` of a chunk's payload.
std::uint64_t word_of(std::uint64_t chunk, std::uint64_t at) {
  return (chunk + 1) * 0x9e3779b97f4a7c15ULL + at;
}

struct Times {
  std::vector<double> hits_us, stores_us;
  std::uint64_t probes = 0, answered = 0;
};

// Pages of one chunk to load into, and of one chunk to store from.
class Engine {
 public:
  explicit Engine(const std::string& socket)
      : kv_(2 * kChunkBytes / 8), client_({socket, "bench", 1}, copy::host_copy_engine()) {
    client::NamespaceSpec spec;
    spec.fingerprint = "engine: bench remote-outage\n";
    spec.model = "bench";
    spec.shard_count = 1;
    spec.chunk_tokens = 256;
    spec.groups = {{kPieceBytes, 1, kPieces}};
    auto* const pages = reinterpret_cast<std::byte*>(kv_.data());
    must(client_.set_namespace(spec).ok() &&
             client_.register_pages(0, {{pages, kPieceBytes, kPieceBytes, 2 * kPieces}}).ok() &&
             client_.wait_attached(10'000).ok(),
         "the engine was not attached");
  }

  // Again and again: larderd grants only touched memory.
  void fill() {
    const auto end = Clock::now() + kRecovery;
    for (std::uint64_t chunk = 0; chunk < kHot;) {
      must(Clock::now() < end, "the chunks could not be stored");
      store(chunk);
      if (present(chunk)) ++chunk;
    }
  }

  Times turn() {
    Times times;
    const auto end = Clock::now() + kTurn;
    auto next_store = Clock::now();
    for (std::uint64_t n = 0; Clock::now() < end; ++n) {
      times.hits_us.push_back(hit(n * 7 % kHot));
      look_on(times);
      if (Clock::now() < next_store) continue;
      next_store += kStoreEvery;
      const auto start = Clock::now();
      store(fresh_++);
      times.stores_us.push_back(since_us(start));
    }
    if (probe_) client_.lower_tiers().tier_probes().end(*std::exchange(probe_, {}));
    return times;
  }

  // Whether a look is answered by the backend, waited for.
  bool probe_answered() {
    Times times;
    look_on(times);
    while (probe_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      look_on(times, false);
    }
    return times.answered != 0;
  }

 private:
  static double since_us(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  static client::Hashes hashes_of(const std::vector<protocol::BlockHash>& hashes) {
    return {reinterpret_cast<const std::uint8_t*>(hashes.data()), sizeof(hashes[0]), hashes.size()};
  }
  static client::Transfer transfer_of(std::uint64_t chunk, std::uint32_t first_page) {
    client::Transfer transfer;
    transfer.hashes = {bench_hash(chunk)};
    for (std::uint32_t i = 0; i < kPieces; ++i) transfer.pages.push_back(first_page + i);
    return transfer;
  }
  bool present(std::uint64_t chunk) const {
    const std::vector<protocol::BlockHash> hashes{bench_hash(chunk)};
    return client_.lookups().present(hashes_of(hashes)) == 1;
  }

  // Microseconds from the question to the verified bytes.
  double hit(std::uint64_t chunk) {
    const client::Transfer transfer = transfer_of(chunk, 0);
    const auto start = Clock::now();
    must(client_.lookups().present(hashes_of(transfer.hashes)) == 1,
         "a chunk that is in use has left memory");
    must(client_.load(transfer, kWaitMs).ok(), "a load was refused");
    const std::vector<client::Completion> done =
        client_.poll(1, std::chrono::milliseconds(kWaitMs));
    const double took_us = since_us(start);
    must(!done.empty() && done.front().status == Code::kOk, "a load failed");
    for (std::uint64_t at = 0; at < kChunkBytes / 8; ++at)
      must(kv_[at] == word_of(chunk, at), "wrong bytes");
    return took_us;
  }

  void store(std::uint64_t chunk) {
    std::uint64_t* const pages = kv_.data() + kChunkBytes / 8;
    for (std::uint64_t at = 0; at < kChunkBytes / 8; ++at) pages[at] = word_of(chunk, at);
    if (client_.store_begin(transfer_of(chunk, kPieces)).ok()) client_.store_finish(kWaitMs);
  }

  // A step of the scheduler: asks, or checks for the answer.
  void look_on(Times& times, bool ask = true) {
    if (probe_) {
      const Result<client::ProbeState> state = client_.lower_tiers().tier_probes().poll(*probe_, 0);
      if (state.ok() && state->running) return;
      ++times.probes;
      times.answered += state.ok() && state->reason == protocol::ProbeEnd::kAll ? 1 : 0;
      client_.lower_tiers().tier_probes().end(*std::exchange(probe_, {}));
    } else if (ask) {
      std::vector<protocol::BlockHash> hashes;
      for (std::uint64_t i = 0; i < kProbeChunks; ++i) hashes.push_back(bench_hash(absent_++));
      const Result<std::uint64_t> ticket = client_.lower_tiers().probe(hashes_of(hashes), kProbeMs);
      must(ticket.ok(), "a look could not be asked");
      probe_ = *ticket;
    }
  }

  std::vector<std::uint64_t> kv_;
  client::Client client_;
  std::uint64_t fresh_ = kHot, absent_ = 1ULL << 40;
  std::optional<std::uint64_t> probe_;
};

struct State {
  std::string name;
  std::function<void()> begin, end;
  std::vector<double> p50_us = {}, p99_us = {}, store_p50_us = {}, store_p99_us = {};
  std::uint64_t probes = 0, answered = 0, stores = 0, written = 0;
};

std::vector<State> states_of(const ServerProcess& server, bench::TrickleProxy& proxy) {
  const auto set = [&server](const char* key, const char* value) {
    must(server.ask({"CONFIG", "SET", key, value}).text == "OK", "the server cannot be configured");
  };
  const auto nothing = [] {};
  return {{"well", nothing, nothing},
          {"stopped", [&server] { server.signal(SIGSTOP); }, [&server] { server.signal(SIGCONT); }},
          {"slow", [&proxy] { proxy.trickle(true); }, [&proxy] { proxy.trickle(false); }},
          {"full",
           [set] {
             set("maxmemory-policy", "noeviction");
             set("maxmemory", "1mb");
           },
           [set] {
             set("maxmemory", kMemory);
             set("maxmemory-policy", "allkeys-lru");
           }}};
}

// Parts and records that the server has taken, without the refused ones.
std::uint64_t written(const ServerProcess& server) {
  // calls=3,...,rejected_calls=1,failed_calls=0
  const std::string text = server.info("commandstats", "cmdstat_set");
  return text.empty() ? 0 : std::stoull(text.substr(text.find('=') + 1));
}

// Probes are answered, and no write is left.
void await_well(Engine& engine, const ServerProcess& server) {
  const auto end = Clock::now() + kRecovery;
  auto since = Clock::now();
  for (std::uint64_t seen = written(server); Clock::now() - since < kSettled;) {
    must(Clock::now() < end, "the backend was not used again within a minute");
    const std::uint64_t now = written(server);
    if (!engine.probe_answered() || std::exchange(seen, now) != now) since = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void run_turn(State& state, Engine& engine, const ServerProcess& server) {
  const std::uint64_t before = written(server);
  state.begin();
  const Times times = engine.turn();
  state.end();
  state.written += written(server) - before;
  state.p50_us.push_back(bench::percentile(times.hits_us, 0.5));
  state.p99_us.push_back(bench::percentile(times.hits_us, 0.99));
  state.store_p50_us.push_back(bench::percentile(times.stores_us, 0.5));
  state.store_p99_us.push_back(bench::percentile(times.stores_us, 0.99));
  state.probes += times.probes;
  state.answered += times.answered;
  state.stores += times.stores_us.size();
}

// The addition of a state to the p99 of `well`, the median of the rounds' own differences: other
// work of the machine in a round slows both.
double added_us(const State& state, const State& well) {
  std::vector<double> added;
  for (std::size_t i = 0; i < well.p99_us.size(); ++i)
    added.push_back(state.p99_us[i] - well.p99_us[i]);
  return bench::median(added);
}

int report(const std::vector<State>& states, const std::string& directory) {
  bench::Report report("remote-outage");
  double worst = -1e9;
  for (const State& state : states) {
    const double added = added_us(state, states.front());
    if (&state != &states.front()) worst = std::max(worst, added);
    report.add_row({{"backend", state.name},
                    {"hit p50_us", bench::median(state.p50_us)},
                    {"hit p99_us", bench::median(state.p99_us)},
                    {"added_p99_us", added},
                    {"store p50_us", bench::median(state.store_p50_us)},
                    {"store p99_us", bench::median(state.store_p99_us)},
                    {"stores", static_cast<double>(state.stores)},
                    {"written", static_cast<double>(state.written)},
                    {"probes", static_cast<double>(state.probes)},
                    {"looks answered", static_cast<double>(state.answered)}});
  }
  report.add_goal("remote-outage.added_p99_us", worst, "<=", 20);
  return report.finish(directory) ? 0 : 1;
}

int run(const std::string& scratch, const std::string& directory) {
  bench::stay_off(kEnginesProcessor);
  const ServerProcess server("redis-server",
                             {"--maxmemory", kMemory, "--maxmemory-policy", "allkeys-lru"});
  bench::TrickleProxy proxy(scratch + "/proxy.sock", server.socket());
  config::Config config;
  config.socket = scratch + "/bench.sock";
  config.memory.directory = scratch;
  config.memory.size_bytes = kArenaBytes;
  config.backend.unix_path = scratch + "/proxy.sock";
  config.backend.url = "unix://" + config.backend.unix_path;
  config.backend.prefix = "bench";
  const Child sidecar([&] { bench::run_sidecar(config); });
  bench::stay_on(kEnginesProcessor);
  Engine engine(config.socket);
  engine.fill();
  std::vector<State> states = states_of(server, proxy);
  for (int round = 0; round < kRounds; ++round)
    for (State& state : states) {
      await_well(engine, server);
      run_turn(state, engine, server);
    }
  return report(states, directory);
}

}  // namespace

int main(int argc, char** argv) {
  must(!test::server_program("redis-server").empty(), "no redis-server here: make deps-servers");
  char scratch[] = "/dev/shm/larder-bench-XXXXXX";
  if (::mkdtemp(scratch) == nullptr) return 1;
  const int result = run(scratch, argc > 1 ? argv[1] : "build/bench");
  std::filesystem::remove_all(scratch);
  return result;
}
