// bench remote: chunks of 1 to 32 MiB stored in a real server and loaded again. Larder's remote
// tier beside hiredis, redis-py, redis-benchmark, LMCache's resp adapter, and `ceiling`: the
// commands of Larder by hand and pipelined, with a reader that drops the bytes and a writer that
// repeats them.
//
// All arms take turns on one server over loopback TCP, and every key is new. A turn moves 256 MiB,
// in two states of the server: `fresh`: the server is emptied before each turn, and asks the kernel
// for the memory of each value; `full`: the server is at its maxmemory (768 MiB, allkeys-lru), like
// a backend in production, and the same arm has just filled it, so each value takes the memory of
// an evicted one. `faults_gib` checks this: pages of 4 KiB given to the server for each GiB;
// 262,144 are all pages. jemalloc keeps no memory of values from 8 MiB on (oversize_threshold), so
// the memory of such values is always new. GB/s (1e9 bytes) count the chunks' payload, whatever
// else an arm stores; Larder's slots are 0.2% larger. Ratios are medians of the rounds' own ratios.
// The server has a processor for itself, and the arms share the others. Otherwise the kernel at
// times wakes a process on the other one's processor, which slows all arms at random.
//
// Usage: remote_bench [DIRECTORY of the JSON [PYTHON of the rivals' environment,
// remote_rivals.py]]. Environment: REMOTE_SERVER (redis-server; or valkey-server), REMOTE_ROUNDS
// (7), REMOTE_SIZES (1,2,4,8,16,32: MiB), REMOTE_ARMS (prefixes of names; all), REMOTE_STATES
// (fresh,full), REMOTE_TCP (the congestion control in a network of the bench's own; without root
// the machine's. Default reno, which every machine has, and which without loss only grows, like
// cubic), REMOTE_WINDOW (KiB that the ceiling asks for at once).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

#include "tests/bench/own_network.h"
#include "tests/bench/processors.h"
#include "tests/bench/remote_arms.h"
#include "tests/bench/report.h"
#include "tests/component/server_process.h"

namespace {

using namespace larder;
using bench::must;

constexpr unsigned kServersProcessor = 0;  // the arms have the others
constexpr std::uint64_t kTurnBytes = 256ULL << 20;
constexpr std::uint64_t kFills = 3;  // turns that fill the server up to its maxmemory
// The server tells ages in seconds: a turn's chunks must be younger than the chunks that filled the
// server, and stay.
constexpr std::chrono::milliseconds kAge{1100};
// more lets the server copy values that then leave its cache before the server sends the copies
constexpr std::uint64_t kWindowKib = 5120;

std::string setting(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

struct Measured {
  // processor seconds and page faults a GiB
  std::vector<double> gbs, client_cpu, server_cpu, faults;
  void add(const bench::Cost& cost, std::uint64_t bytes) {
    const double gib = static_cast<double>(bytes) / (1 << 30);
    gbs.push_back(static_cast<double>(bytes) / cost.seconds / 1e9);
    client_cpu.push_back(cost.client_cpu / gib);
    server_cpu.push_back(cost.server_cpu / gib);
    faults.push_back(static_cast<double>(cost.server_faults) / gib);
  }
};
// The measured object: an operation, on a server in some state.
struct What {
  std::string operation, state;
  friend auto operator<=>(const What&, const What&) = default;
};
// By measured object, size in MiB, arm.
using Figures = std::map<What, std::map<std::uint64_t, std::map<std::string, Measured>>>;

double ratio(const Measured& of, const Measured& to) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < of.gbs.size(); ++round)
    ratios.push_back(of.gbs[round] / to.gbs[round]);
  return bench::median(ratios);
}

using Arms = std::vector<std::unique_ptr<bench::RemoteArm>>;

Arms make_arms(const bench::Place& place, const std::vector<std::string>& python) {
  Arms all;
  const std::string window = setting("REMOTE_WINDOW", std::to_string(kWindowKib));
  all.push_back(bench::ceiling_arm(place, std::strtoull(window.c_str(), nullptr, 10) << 10));
  all.push_back(bench::larder_arm(place));
  all.push_back(bench::hiredis_arm(place));
  all.push_back(bench::redis_benchmark_arm(place));
  const std::vector<std::string> wanted = split(setting("REMOTE_ARMS", ""));
  const auto want = [&](const std::string& name) {
    return wanted.empty() || std::ranges::any_of(wanted, [&](const std::string& word) {
             return name.starts_with(word);
           });
  };
  if (!python.empty() && (want("redis-py") || want("resp, 8 workers") || want("resp, 1 worker")))
    for (auto& arm : bench::python_arms(place, python)) all.push_back(std::move(arm));
  std::erase_if(all, [&](const auto& arm) { return !want(arm->name()); });
  return all;
}

void configure(const test::ServerProcess& server, const std::string& name,
               const std::string& value) {
  must(server.ask({"CONFIG", "SET", name, value}).text == "OK", "CONFIG SET " + name);
}

// 0: no limit. Values under way, in or out, take their memory from the kept values: eight of 32
// MiB.
void limit(const test::ServerProcess& server, std::uint64_t bytes) {
  // of few and large values the server would else find no old one now and then
  configure(server, "maxmemory-samples", "64");
  configure(server, "maxmemory-policy", bytes == 0 ? "noeviction" : "allkeys-lru");
  configure(server, "maxmemory", std::to_string(bytes));
}

// One turn of an arm; returns the number of used names.
std::uint64_t turn(const test::ServerProcess& server, const std::string& state,
                   bench::RemoteArm& arm, const bench::Chunks& chunks, std::uint64_t first,
                   bool counts, Figures& figures) {
  std::uint64_t used = 0;
  must(server.ask({"FLUSHALL"}).text == "OK", "FLUSHALL");
  if (state == "full") {
    limit(server, kFills * kTurnBytes);
    for (; used < kFills * chunks.count(); used += chunks.count())
      static_cast<void>(arm.set(chunks, first + used));
    std::this_thread::sleep_for(kAge);
  }
  const bench::Cost set = arm.set(chunks, first + used);
  limit(server, 0);  // the stored chunks must be there for the GETs
  const bench::Cost get = arm.get(chunks, first + used);
  const std::uint64_t bytes = chunks.payload() * chunks.count(), mib = chunks.payload() >> 20;
  if (counts) figures[{"SET", state}][mib][arm.name()].add(set, bytes);
  if (counts) figures[{"GET", state}][mib][arm.name()].add(get, bytes);
  return used + chunks.count();
}

void add_rows(const Arms& arms, const Figures& figures, bench::Report& report) {
  for (const auto& [what, sizes] : figures)
    for (const auto& [mib, measured] : sizes)
      for (const auto& arm : arms) {
        const Measured& one = measured.at(arm->name());
        const auto ceiling = measured.find("ceiling");
        report.add_row({{"", what.operation},
                        {"server", what.state},
                        {"chunk_mib", static_cast<double>(mib)},
                        {"arm", arm->name()},
                        {"gb_s", bench::median(one.gbs)},
                        {"of ceiling", ceiling == measured.end() ? 0 : ratio(one, ceiling->second)},
                        {"client_cpu_s_gib", bench::median(one.client_cpu)},
                        {"server_cpu_s_gib", bench::median(one.server_cpu)},
                        {"faults_gib", bench::median(one.faults)},
                        {"values of a chunk", arm->values(mib << 20)}});
      }
}

// The worst of both states to the ceiling; to the rival in production's state, with the fresh
// figure beside in the table. LMCache counts at its fastest: with its default workers, or with one.
void add_goals(const Figures& figures, bench::Report& report) {
  const auto of = [&](const What& what, std::uint64_t mib,
                      const std::string& arm) -> const Measured* {
    const auto sizes = figures.find(what);
    if (sizes == figures.end() || !sizes->second.contains(mib) ||
        !sizes->second.at(mib).contains(arm))
      return nullptr;
    return &sizes->second.at(mib).at(arm);
  };
  const auto worst = [&](const std::string& id, const std::vector<What>& all,
                         const std::vector<std::uint64_t>& sizes,
                         const std::vector<std::string>& others, double goal) {
    std::vector<double> ratios;
    for (const What& what : all)
      for (const std::uint64_t mib : sizes)
        for (const std::string& other : others)
          if (const Measured* larder = of(what, mib, "larder"), *to = of(what, mib, other);
              larder != nullptr && to != nullptr)
            ratios.push_back(ratio(*larder, *to));
    if (!ratios.empty()) report.add_goal("remote." + id, std::ranges::min(ratios), ">=", goal);
  };
  const std::vector<What> gets{{"GET", "fresh"}, {"GET", "full"}},
      sets{{"SET", "fresh"}, {"SET", "full"}};
  for (const std::uint64_t mib : {2, 16}) {
    worst("get_" + std::to_string(mib) + "m_vs_ceiling", gets, {mib}, {"ceiling"}, 0.95);
    worst("set_" + std::to_string(mib) + "m_vs_ceiling", sets, {mib}, {"ceiling"}, 0.95);
  }
  worst("set_vs_resp", {{"SET", "full"}}, {2, 16}, {"resp, 8 workers", "resp, 1 worker"}, 1.4);
  worst("get_16m_vs_hiredis", gets, {16}, {"hiredis"}, 1.5);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bench::enter_own_network(setting("REMOTE_TCP", "reno"));
  } catch (const std::runtime_error& error) {
    std::printf("%s\n", error.what());
  }
  std::printf("TCP: %s\n", bench::tcp_congestion().c_str());
  const std::uint16_t port = test::free_port();
  bench::stay_on(kServersProcessor);
  const test::ServerProcess server(setting("REMOTE_SERVER", "redis-server"),
                                   {"--port", std::to_string(port), "--bind", "127.0.0.1"});
  bench::stay_off(kServersProcessor);
  const Arms arms = make_arms({port, server.pid()},
                              std::vector<std::string>(argv + std::min(argc, 2), argv + argc));
  const std::size_t rounds = std::strtoull(setting("REMOTE_ROUNDS", "7").c_str(), nullptr, 10);
  const std::vector<std::string> states = split(setting("REMOTE_STATES", "fresh,full"));
  Figures figures;
  std::uint64_t name = 1;
  for (const std::string& size : split(setting("REMOTE_SIZES", "1,2,4,8,16,32"))) {
    const std::uint64_t payload = std::strtoull(size.c_str(), nullptr, 10) << 20;
    const bench::Chunks chunks(payload, kTurnBytes / payload);
    for (const std::string& state : states)
      // the first one warms memory up, and does not count
      for (std::size_t round = 0; round <= rounds; ++round)
        for (std::size_t i = 0; i < arms.size(); ++i)
          name += turn(server, state, *arms[(i + round) % arms.size()], chunks, name, round != 0,
                       figures);
    std::printf("%s MiB measured\n", size.c_str());
    std::fflush(stdout);
  }
  bench::Report report("remote");
  add_rows(arms, figures, report);
  add_goals(figures, report);
  return report.finish(argc > 1 ? argv[1] : "build/bench") ? 0 : 1;
}
