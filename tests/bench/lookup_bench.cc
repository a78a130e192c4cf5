// bench lookup: one probe for the 64 chunks of a 16,384-token prompt, against the same probe by a
// round trip over a Unix socket.
//
// The engine's thread has a processor of its own, like a scheduler loop. The server sleeps on
// another processor, like a sidecar, so a round trip costs a wake. Two further servers have no
// goal: one never sleeps, and one runs on the engine's processor, where the server needs no wake
// but stops the engine. Prompts rotate over 100,000 stored chunks. Meanwhile another process stores
// and evicts other chunks as fast as possible, so buckets and entries change under the reader.
// larderd, writer and servers are processes of their own.
//
// Usage: lookup_bench [DIRECTORY of the JSON] [COMMAND]. COMMAND is a program in another language
// that probes the same chunks through liblarder. It runs with LARDER_SOCKET,
// LARDER_BENCH_FINGERPRINT and LARDER_BENCH_PROMPTS, and prints its p50 in microseconds as the last
// line: lookup.python_p50_us.
#include <stdlib.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "tests/bench/child.h"
#include "tests/bench/processors.h"
#include "tests/bench/report.h"
#include "tests/bench/rpc_arm.h"

namespace {

using namespace larder;
using Clock = std::chrono::steady_clock;
using bench::bench_hash;
using bench::Child;
using bench::SmallClient;
using bench::Waiting;

constexpr std::size_t kPromptChunks = 64;
constexpr std::uint64_t kPrompts = 1563;  // of 64 chunks: 100,032
constexpr std::uint64_t kWriterChunks = 4096;
constexpr std::uint32_t kWriterWaitMs = 5000;
constexpr std::uint64_t kSpareSlots = 3 * kWriterChunks;
constexpr std::uint64_t kSlotBytes = 4096;
constexpr int kRounds = 9;
constexpr int kProbesPerRound = 2000;
// A round trip that wakes the other processor, on the reference machine.
constexpr double kWakeReferenceUs = 75;
constexpr unsigned kAskersProcessor = 0;
const char kFingerprint[] = "engine: bench lookup\n";

// Full rate: a batch is stored, committed, and evicted by its hashes, so that the probed chunks
// stay.
void run_writer(const std::string& socket) {
  SmallClient writer(socket, "engine: bench lookup's writer\n");
  std::vector<protocol::BlockHash> hashes(kWriterChunks);
  for (std::uint64_t first = 1'000'000; writer.ok(); first += kWriterChunks) {
    writer.store(first, kWriterChunks);
    for (std::uint64_t i = 0; i < kWriterChunks; ++i) hashes[i] = bench_hash(first + i);
    const client::Hashes stored{reinterpret_cast<const std::uint8_t*>(hashes.data()),
                                sizeof(hashes[0]), hashes.size()};
    if (!writer.client().lower_tiers().act(protocol::Verb::kEvict, stored, kWriterWaitMs).ok())
      return;
  }
}

std::vector<protocol::BlockHash> prompt(std::uint64_t number) {
  std::vector<protocol::BlockHash> hashes;
  for (std::uint64_t i = 0; i < kPromptChunks; ++i)
    hashes.push_back(bench_hash(number % kPrompts * kPromptChunks + i));
  return hashes;
}

// A server process on one end of a socket pair; the other end is for questions. The server is
// stopped between its rounds, so that a spinning server takes no processor from others.
class Server {
 public:
  Server(const std::string& larder_socket, unsigned processor, Waiting waiting)
      : waiting_(waiting) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) ::abort();
    asking_ = Fd(ends[0]);
    Fd answering(ends[1]);
    child_ = std::make_unique<Child>([&] {
      bench::stay_on(processor);
      SmallClient client(larder_socket, kFingerprint);
      if (client.ok()) bench::serve_lookups(answering.get(), client, waiting);
    });
  }
  void rest() const { child_->signal(SIGSTOP); }
  void go_on() const { child_->signal(SIGCONT); }
  std::uint64_t ask(const std::vector<protocol::BlockHash>& hashes) const {
    return bench::ask(asking_.get(), hashes, waiting_);
  }

 private:
  const Waiting waiting_;
  Fd asking_;
  std::unique_ptr<Child> child_;
};

struct Arm {
  std::string name;
  std::function<std::uint64_t(const std::vector<protocol::BlockHash>&)> probe;
  const Server* server = nullptr;  // null: no server is asked
  std::vector<double> p50_us = {}, p99_us = {};
};

// One round of an arm. False: a chunk was missing, and the figures would be void.
bool run_round(Arm& arm, std::uint64_t& next) {
  std::vector<double> times_us;
  if (arm.server != nullptr) arm.server->go_on();
  for (int i = 0; i < kProbesPerRound; ++i) {
    const std::vector<protocol::BlockHash> hashes = prompt(next++ * 7);
    const auto start = Clock::now();
    const std::uint64_t present = arm.probe(hashes);
    times_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    if (present != kPromptChunks) {
      std::fprintf(stderr, "%s: only %llu of %zu chunks were found\n", arm.name.c_str(),
                   static_cast<unsigned long long>(present), kPromptChunks);
      return false;
    }
  }
  if (arm.server != nullptr) arm.server->rest();
  arm.p50_us.push_back(bench::percentile(times_us, 0.5));
  arm.p99_us.push_back(bench::percentile(times_us, 0.99));
  return true;
}

Arm round_trip(const std::string& name, const Server& server) {
  return {name, [&server](const auto& hashes) { return server.ask(hashes); }, &server};
}

bool all_present(SmallClient& client) {
  for (std::uint64_t number = 0; number < kPrompts; ++number) {
    const std::vector<protocol::BlockHash> hashes = prompt(number);
    const client::Hashes asked{reinterpret_cast<const std::uint8_t*>(hashes.data()),
                               sizeof(hashes[0]), hashes.size()};
    if (client.client().lookups().present(asked) != kPromptChunks) return false;
  }
  return true;
}

// Several passes: larderd grants only touched memory, and the writer takes its share.
bool fill(SmallClient& client) {
  for (int pass = 0; pass < 50 && !all_present(client); ++pass) {
    for (std::uint64_t first = 0; first < kPrompts * kPromptChunks; first += 1024)
      client.store(first, std::min<std::uint64_t>(1024, kPrompts * kPromptChunks - first));
    ::usleep(20'000);  // the last commits
  }
  return all_present(client);
}

// Runs COMMAND; returns the number on its last line, or a negative one.
double run_command(const char* command, const std::string& socket) {
  ::setenv("LARDER_SOCKET", socket.c_str(), 1);
  ::setenv("LARDER_BENCH_FINGERPRINT", kFingerprint, 1);
  ::setenv("LARDER_BENCH_PROMPTS", std::to_string(kPrompts).c_str(), 1);
  std::FILE* output = ::popen(command, "r");
  if (output == nullptr) return -1;
  char line[512], last[512] = "-1";
  while (std::fgets(line, sizeof(line), output) != nullptr)
    std::snprintf(last, sizeof(last), "%s", line);
  return ::pclose(output) == 0 ? std::strtod(last, nullptr) : -1;
}

int run(const std::string& directory, const config::Config& config, const char* command) {
  const Child sidecar([&] { bench::run_sidecar(config); });
  // Children are made before this process has threads of its own that the children would lack.
  const unsigned other = std::thread::hardware_concurrency() - 1;
  const Server far(config.socket, other, Waiting::kSleeping);
  const Server spinning(config.socket, other, Waiting::kSpinning);
  const Server near(config.socket, kAskersProcessor, Waiting::kSleeping);
  std::optional<Child> writer(std::in_place, [&] { run_writer(config.socket); });
  bench::stay_on(kAskersProcessor);
  SmallClient client(config.socket, kFingerprint);
  if (!client.ok() || !fill(client)) {
    std::fprintf(stderr, "the chunks could not be stored\n");
    return 1;
  }
  std::vector<Arm> arms{{"shared index",
                         [&](const auto& hashes) {
                           return client.client().lookups().present(
                               {reinterpret_cast<const std::uint8_t*>(hashes.data()),
                                sizeof(hashes[0]), hashes.size()});
                         }},
                        round_trip("round trip", far),
                        round_trip("round trip, server spins", spinning),
                        round_trip("round trip, same processor", near)};
  std::uint64_t next = 0;
  for (int round = 0; round < kRounds; ++round)
    for (Arm& arm : arms)
      if (!run_round(arm, next)) return 1;

  // The same without other work on the processors.
  writer.reset();
  arms.push_back(round_trip("round trip, no writer", far));
  for (int round = 0; round < kRounds; ++round)
    if (!run_round(arms.back(), next)) return 1;

  bench::Report report("lookup");
  for (const Arm& arm : arms) {
    const double arm_p50 = bench::median(arm.p50_us);
    report.add_row(
        {{"arm", arm.name},
         {"p50_us", arm_p50},
         {"p99_us", bench::median(arm.p99_us)},
         {"mark", arm.server == &far ? bench::far_from_reference(arm_p50, kWakeReferenceUs)
                                     : std::string()}});
  }
  const double p50 = bench::median(arms[0].p50_us);
  report.add_goal("lookup.p50_us", p50, "<=", 5);
  report.add_goal("lookup.p99_us", bench::median(arms[0].p99_us), "<=", 12);
  report.add_goal("lookup.vs_rpc", bench::median(arms[1].p50_us) / p50, ">=", 15);
  if (command != nullptr) {
    const double python = run_command(command, config.socket);
    if (python < 0) {
      std::fprintf(stderr, "failed: %s\n", command);
      return 1;
    }
    report.add_row({{"arm", std::string("from Python")},
                    {"p50_us", python},
                    {"p99_us", std::string("-")},
                    {"mark", std::string()}});
    report.add_goal("lookup.python_p50_us", python, "<=", 30);
  }
  return report.finish(directory) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  char scratch[] = "/dev/shm/larder-bench-XXXXXX";
  if (::mkdtemp(scratch) == nullptr) return 1;
  config::Config config;
  config.socket = std::string(scratch) + "/bench.sock";
  config.memory.directory = scratch;
  config.memory.size_bytes = (kPrompts * kPromptChunks + kSpareSlots) * kSlotBytes;
  config.memory.size_bytes = (config.memory.size_bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
  const int result = run(argc > 1 ? argv[1] : "build/bench", config, argc > 2 ? argv[2] : nullptr);
  std::filesystem::remove_all(scratch);
  return result;
}
