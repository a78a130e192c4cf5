// webhook_bench DIRECTORY SERVER REPOSITORY: the admission server under 50 reviews of KServe's pods
// a second, alone and beside hostile clients of every kind. The time of a review begins when the
// review is due, so the wait for an earlier review counts. A missing or wrong answer fails the
// benchmark.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "tests/bench/report.h"
#include "tests/component/webhook/honest_clients.h"
#include "tests/component/webhook/hostile_clients.h"

namespace {

using namespace larder;
using component_test::HostileClients;
using component_test::Served;
using component_test::WebhookServer;

constexpr double kRate = 50, kSeconds = 20, kWarmUpSeconds = 2;

struct Arm {
  Served served;
  double p50_ms, p99_ms, most_mib;
};

Arm run(bench::Report& report, const char* name, const WebhookServer& server,
        const std::vector<component_test::HonestReview>& reviews) {
  double most_mib = server.resident_mib();
  std::jthread watch([&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(20)))
      most_mib = std::max(most_mib, server.resident_mib());
  });
  Served served = component_test::send_reviews(server, reviews, kRate, kSeconds);
  watch.request_stop();
  watch.join();
  const double p50_ms = bench::percentile(served.ms, 0.5),
               p99_ms = bench::percentile(served.ms, 0.99);
  report.add_row({{"clients", name},
                  {"reviews", static_cast<double>(served.ms.size())},
                  {"failed", static_cast<double>(served.failed)},
                  {"p50_ms", p50_ms},
                  {"p99_ms", p99_ms},
                  {"most_ms", bench::percentile(served.ms, 1)},
                  {"resident_mib", most_mib}});
  return {std::move(served), p50_ms, p99_ms, most_mib};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s DIRECTORY SERVER REPOSITORY\n", argv[0]);
    return 2;
  }
  const WebhookServer server(argv[2]);
  const std::vector<component_test::HonestReview> reviews = component_test::kserve_reviews(argv[3]);
  if (server.address().empty() || reviews.empty()) {
    std::fprintf(stderr, "the server did not start, or there are no pods in %s\n", argv[3]);
    return 1;
  }
  bench::Report report("webhook");
  component_test::send_reviews(server, reviews, kRate, kWarmUpSeconds);
  const Arm alone = run(report, "honest alone", server, reviews);
  const double resident_mib = server.resident_mib();
  const HostileClients hostile(server.address());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const Arm beside = run(report, "beside hostile", server, reviews);
  report.add_goal("webhook.alone_p50_ms", alone.p50_ms, "<=", 5);
  report.add_goal("webhook.alone_p99_ms", alone.p99_ms, "<=", 20);
  report.add_goal("webhook.p50_ms", beside.p50_ms, "<=", 10);
  report.add_goal("webhook.p99_ms", beside.p99_ms, "<=", 20);
  report.add_goal("webhook.hostile_rss_mib", beside.most_mib - resident_mib, "<=", 32);
  const bool written = report.finish(argv[1]);
  for (const Arm* arm : {&alone, &beside})
    if (arm->served.failed > 0)
      std::fprintf(stderr, "%zu reviews failed: %s\n", arm->served.failed,
                   arm->served.first_failure.c_str());
  return written && alone.served.failed + beside.served.failed == 0 ? 0 : 1;
}
