// bench remote: chunks of 1 to 32 MiB stored in a real server and loaded again: Larder's remote tier beside hiredis, redis-py,
// redis-benchmark, LMCache's resp adapter, and `ceiling`, the same commands as Larder's by hand and pipelined, whose reader throws the
// bytes away and whose writer sends the same ones again and again.
//
// All arms take turns on one server over loopback TCP; before each the server is emptied, so that every key is new. A turn moves 256 MiB.
// GB/s are of the chunks' payload (1e9 bytes), whatever an arm stores beside it; Larder's own slots are 0.2% larger. Ratios are medians
// of the rounds' own ratios. Client and server share the machine's processors.
//
// Usage: remote_bench [DIRECTORY of the JSON [PYTHON of the rivals' environment, remote_rivals.py]]. Environment: REMOTE_SERVER
// (redis-server; or valkey-server), REMOTE_ROUNDS (7), REMOTE_SIZES (1,2,4,8,16,32: MiB), REMOTE_ARMS (names that begin so; all),
// REMOTE_WINDOW (what the ceiling asks for at once, in KiB).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include "tests/bench/remote_arms.h"
#include "tests/bench/report.h"
#include "tests/component/server_process.h"

namespace {

using namespace larder;
using bench::must;

constexpr std::uint64_t kTurnBytes = 256ULL << 20;
constexpr std::uint64_t kWindowKib = 4096;  // more lets the server copy values that then leave its cache before they are sent

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
  std::vector<double> gbs, client_cpu, server_cpu;  // processor seconds a GiB
  void add(const bench::Cost& cost, std::uint64_t bytes) {
    const double gib = static_cast<double>(bytes) / (1 << 30);
    gbs.push_back(static_cast<double>(bytes) / cost.seconds / 1e9);
    client_cpu.push_back(cost.client_cpu / gib);
    server_cpu.push_back(cost.server_cpu / gib);
  }
};
// By operation, size in MiB, arm.
using Figures = std::map<std::string, std::map<std::uint64_t, std::map<std::string, Measured>>>;

double ratio(const Measured& of, const Measured& to) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < of.gbs.size(); ++round) ratios.push_back(of.gbs[round] / to.gbs[round]);
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
    return wanted.empty() || std::ranges::any_of(wanted, [&](const std::string& word) { return name.starts_with(word); });
  };
  if (!python.empty() && (want("redis-py") || want("resp, 8 workers") || want("resp, 1 worker")))
    for (auto& arm : bench::python_arms(place, python)) all.push_back(std::move(arm));
  std::erase_if(all, [&](const auto& arm) { return !want(arm->name()); });
  return all;
}

// One turn of an arm, on an empty server.
void turn(const test::ServerProcess& server, bench::RemoteArm& arm, const bench::Chunks& chunks, std::uint64_t first, bool counts,
          Figures& figures) {
  must(server.ask({"FLUSHALL"}).text == "OK", "FLUSHALL");
  const bench::Cost set = arm.set(chunks, first), get = arm.get(chunks, first);
  if (!counts) return;
  const std::uint64_t bytes = chunks.payload() * chunks.count(), mib = chunks.payload() >> 20;
  figures["SET"][mib][arm.name()].add(set, bytes);
  figures["GET"][mib][arm.name()].add(get, bytes);
}

void add_rows(const Arms& arms, const Figures& figures, bench::Report& report) {
  for (const auto& [operation, sizes] : figures)
    for (const auto& [mib, measured] : sizes)
      for (const auto& arm : arms) {
        const Measured& one = measured.at(arm->name());
        const auto ceiling = measured.find("ceiling");
        report.add_row({{"", operation},
                        {"chunk_mib", static_cast<double>(mib)},
                        {"arm", arm->name()},
                        {"gb_s", bench::median(one.gbs)},
                        {"of ceiling", ceiling == measured.end() ? 0 : ratio(one, ceiling->second)},
                        {"client_cpu_s_gib", bench::median(one.client_cpu)},
                        {"server_cpu_s_gib", bench::median(one.server_cpu)},
                        {"values of a chunk", arm->values(mib << 20)}});
      }
}

// Of those that were measured. LMCache's counts as it is faster: with the workers that it has by default, or with one.
void add_goals(const Figures& figures, bench::Report& report) {
  const auto of = [&](const std::string& operation, std::uint64_t mib, const std::string& arm) -> const Measured* {
    const auto sizes = figures.find(operation);
    if (sizes == figures.end() || !sizes->second.contains(mib) || !sizes->second.at(mib).contains(arm)) return nullptr;
    return &sizes->second.at(mib).at(arm);
  };
  for (const std::string operation : {"GET", "SET"})
    for (const std::uint64_t mib : {2, 16}) {
      const Measured *larder = of(operation, mib, "larder"), *ceiling = of(operation, mib, "ceiling");
      const std::string id = (operation == "GET" ? "get_" : "set_") + std::to_string(mib) + "m_vs_ceiling";
      if (larder != nullptr && ceiling != nullptr) report.add_goal("remote." + id, ratio(*larder, *ceiling), ">=", 0.95);
    }
  std::vector<double> vs_resp;
  for (const std::uint64_t mib : {2, 16})
    for (const std::string arm : {"resp, 8 workers", "resp, 1 worker"})
      if (const Measured* larder = of("SET", mib, "larder"), *resp = of("SET", mib, arm); larder != nullptr && resp != nullptr)
        vs_resp.push_back(ratio(*larder, *resp));
  if (!vs_resp.empty()) report.add_goal("remote.set_vs_resp", std::ranges::min(vs_resp), ">=", 1.4);
  if (const Measured* larder = of("GET", 16, "larder"), *hiredis = of("GET", 16, "hiredis");
      larder != nullptr && hiredis != nullptr)
    report.add_goal("remote.get_16m_vs_hiredis", ratio(*larder, *hiredis), ">=", 1.5);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint16_t port = test::free_port();
  const test::ServerProcess server(setting("REMOTE_SERVER", "redis-server"),
                                   {"--port", std::to_string(port), "--bind", "127.0.0.1"});
  const Arms arms = make_arms({port, server.pid()}, std::vector<std::string>(argv + std::min(argc, 2), argv + argc));
  const std::size_t rounds = std::strtoull(setting("REMOTE_ROUNDS", "7").c_str(), nullptr, 10);
  Figures figures;
  std::uint64_t name = 1;
  for (const std::string& size : split(setting("REMOTE_SIZES", "1,2,4,8,16,32"))) {
    const std::uint64_t payload = std::strtoull(size.c_str(), nullptr, 10) << 20;
    const bench::Chunks chunks(payload, kTurnBytes / payload);
    for (std::size_t round = 0; round <= rounds; ++round)  // the first one warms memory up, and does not count
      for (std::size_t i = 0; i < arms.size(); ++i, name += chunks.count())
        turn(server, *arms[(i + round) % arms.size()], chunks, name, round != 0, figures);
    std::printf("%s MiB measured\n", size.c_str());
    std::fflush(stdout);
  }
  bench::Report report("remote");
  add_rows(arms, figures, report);
  add_goals(figures, report);
  return report.finish(argc > 1 ? argv[1] : "build/bench") ? 0 : 1;
}
