// bench remote-lookup: the time of the remote tier's probe for the chunks of a prompt: 64 and 1,024
// keys, a standalone server and a Cluster of three masters, without delay and with 20 ms (10 each
// way) between larderd's network namespace and the namespace of the servers. A model with recurrent
// states asks two questions at one time: about 64 chunks, and about the states at their 64 ends.
//
// The unit is a round trip of the network, as a PING on a connection of its own measures in the
// same minute. All chunks are there, written through another tier. `first` is a probe right after
// the tier has connected, when TCP sends at most ten packets before the first acknowledgement. The
// median is that of probes 0.3 s apart on connections that have carried probes before. The goals
// are for the median, with the delay, of the slower mode.
//
// Usage: remote_lookup_bench [DIRECTORY of the JSON]. Needs root and /dev/net/tun (delayed_link.h).
// Environment: REMOTE_SERVER (redis-server; or valkey-server), REMOTE_TCP (reno, bbr: TCP's
// congestion control; the machine's own).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/bench/delayed_link.h"
#include "tests/bench/report.h"
#include "tests/component/cluster_processes.h"
#include "tests/component/tier_node.h"

namespace {

using namespace larder;
using bench::DelayedLink;

constexpr std::size_t kFewKeys = 64, kMostKeys = tiers::kMaxProbeKeys;
constexpr std::uint64_t kPayload = 4096, kOneWayUs = 10'000;
constexpr int kProbes = 20, kFirstLooks = 5, kPings = 20;
constexpr std::chrono::milliseconds kPause(300);

void must(bool held, const std::string& what) {
  if (!held) throw std::runtime_error(what);
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double ping_ms(std::uint16_t port) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  ::inet_pton(AF_INET, DelayedLink::kFarAddress, &name.sin_addr);
  name.sin_port = htons(port);
  must(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0,
       "no connection for PING");
  std::vector<double> times;
  for (int i = 0; i < kPings; ++i) {
    char answer[16];
    const auto start = std::chrono::steady_clock::now();
    must(::send(fd.get(), "PING\r\n", 6, MSG_NOSIGNAL) == 6 &&
             ::recv(fd.get(), answer, sizeof(answer), 0) == 7,
         "no PONG");
    times.push_back(ms_since(start));
  }
  return bench::median(times);
}

constexpr std::uint64_t kTokens = 1, kStates = 2;  // namespaces

// The keys that one question names.
struct Question {
  std::size_t count;
  std::uint64_t space = kTokens;
};

std::vector<tiers::ChunkKey> keys(const Question& question) {
  std::vector<tiers::ChunkKey> all;
  for (std::size_t i = 0; i < question.count; ++i)
    all.push_back(tiers::testing_support::key_of(i, question.space));
  return all;
}

// Asks all questions at one time, and waits for all answers.
double probe_ms(test::Node& node, const std::vector<Question>& questions) {
  std::vector<std::vector<tiers::ChunkKey>> asked;
  for (const Question& question : questions) asked.push_back(keys(question));
  std::vector<tiers::Ticket> tickets;
  const auto start = std::chrono::steady_clock::now();
  for (const std::vector<tiers::ChunkKey>& one : asked) {
    tickets.push_back(node.loop.next());
    must(node.tier->probe(tickets.back(), one, node.loop.in_ms(20'000)).ok(),
         "a question was refused");
  }
  std::size_t found = 0, wanted = 0;
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    const std::optional<tiers::Message> message = node.loop.done(tickets[i]);
    must(message && message->status.ok(), "a question has no answer");
    found += static_cast<std::size_t>(std::ranges::count(message->there, true));
    wanted += asked[i].size();
  }
  const double ms = ms_since(start);
  must(found == wanted, "a chunk was not found");
  return ms;
}

// One row, and how many round trips the median look took.
double measure(const std::string& mode, const remote::RemoteOptions& options, std::uint16_t port,
               const std::vector<Question>& questions, std::uint64_t delay_ms,
               bench::Report& report) {
  std::vector<double> first, probes;
  const double ping = ping_ms(port);
  for (int i = 0; i < kFirstLooks; ++i) {
    test::Node node(options);
    must(node.well(), "the tier does not connect");
    std::this_thread::sleep_for(kPause);  // a Cluster's nodes are connected to one by one
    first.push_back(probe_ms(node, questions));
    for (int more = 0; i == 0 && more < kProbes; ++more) {
      std::this_thread::sleep_for(kPause);
      probes.push_back(probe_ms(node, questions));
    }
  }
  const double median = bench::median(probes);
  report.add_row(
      {{"server", mode},
       {"keys", static_cast<double>(questions.front().count)},
       {"states", static_cast<double>(questions.size() > 1 ? questions.back().count : 0)},
       {"added_ms", static_cast<double>(delay_ms)},
       {"ping_ms", ping},
       {"look_ms", median},
       {"worst_ms", bench::percentile(probes, 1)},
       {"first_ms", bench::median(first)},
       {"round trips", median / ping},
       {"of the first", bench::median(first) / ping}});
  return median / ping;
}

void fill(const remote::RemoteOptions& options) {
  test::Node writer(options);
  must(writer.well(), "the tier does not connect");
  for (std::size_t i = 0; i < kMostKeys; ++i) {
    const Status stored = writer.loop.put(i, 1, 1, kPayload);
    must(stored.ok(), stored.to_string());
  }
  for (std::size_t i = 0; i < kFewKeys; ++i) {
    const Status stored = writer.loop.put(i, 1, kStates, kPayload);
    must(stored.ok(), stored.to_string());
  }
}

struct Worst {
  double few = 0, many = 0, states = 0;
};

void run(DelayedLink& link, const std::string& mode, const remote::RemoteOptions& options,
         std::uint16_t port, bench::Report& report, Worst& worst) {
  link.delay_us(0);
  fill(options);
  for (const std::uint64_t one_way_us : {std::uint64_t{0}, kOneWayUs}) {
    link.delay_us(one_way_us);
    const std::uint64_t added = 2 * one_way_us / 1000;
    const double few = measure(mode, options, port, {{kFewKeys}}, added, report);
    const double many = measure(mode, options, port, {{kMostKeys}}, added, report);
    const double states =
        measure(mode, options, port, {{kFewKeys}, {kFewKeys, kStates}}, added, report);
    if (added != 0)
      worst = {std::max(worst.few, few), std::max(worst.many, many),
               std::max(worst.states, states)};
  }
}

int bench_lookup(const std::string& directory, const std::string& program,
                 const std::string& congestion) {
  DelayedLink link(congestion);
  const std::string over = ", " + link.congestion();
  bench::Report report("remote-lookup");
  Worst worst;
  const std::vector<std::string> open{"--bind", "0.0.0.0", "--protected-mode", "no"};
  {
    std::optional<test::ServerProcess> server;
    remote::RemoteOptions options;
    options.host = DelayedLink::kFarAddress;
    options.port = test::free_port();
    std::vector<std::string> words = open;
    words.insert(words.end(), {"--port", std::to_string(options.port)});
    link.at_far_end([&] { server.emplace(program, words); });
    run(link, "standalone" + over, options, options.port, report, worst);
  }
  std::optional<test::ClusterProcesses> cluster;
  std::vector<std::string> words = open;
  words.insert(words.end(), {"--cluster-announce-ip", DelayedLink::kFarAddress});
  link.at_far_end([&] { cluster.emplace(program, 3, 0, false, words); });
  remote::RemoteOptions options;
  options.mode = remote::Mode::kCluster;
  for (remote::Endpoint endpoint : cluster->endpoints()) {
    endpoint.host = DelayedLink::kFarAddress;
    options.endpoints.push_back(endpoint);
  }
  run(link, "cluster of 3" + over, options, options.endpoints.front().port, report, worst);
  report.add_goal("remote-lookup.rtts_64", worst.few, "<", 2);
  report.add_goal("remote-lookup.rtts_1024", worst.many, "<", 2);
  report.add_goal("remote-lookup.rtts_states", worst.states, "<", 2);
  return report.finish(directory) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto setting = [](const char* name, const char* otherwise) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? otherwise : value);
  };
  try {
    return bench_lookup(argc > 1 ? argv[1] : "build/bench",
                        setting("REMOTE_SERVER", "redis-server"), setting("REMOTE_TCP", ""));
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "bench-remote-lookup: %s\n", error.what());
    return 1;
  }
}
