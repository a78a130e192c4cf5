// bench operator: the operator's time for 1,000 pools, its cost beside 1,000 pods of 50 pools, and
// its time, memory and API calls beside 5,000 pods with peers on 1,000 hollow nodes.
//
// operator_bench OUTPUT PROGRAMS. A real etcd and kube-apiserver (tests/component/kube) with
// Larder's definitions; the real larder-operator, one replica, with leader election; one real
// larderd, which answers for every pod, since all addresses are of this machine. Pods are plain
// ones after injection, entered as running; there is no kubelet. A pool is reconciled when its
// status has its generation; the time is from the operator's start to the last pool. Memory is
// resident memory after three rounds of questions to all larderd. Processor time is counted over a
// minute without changes, with these questions.
//
// A hollow node is a Node object without a kubelet. At the large size the operator starts anew and
// finds all 50 pools changed: time and API calls are from its start to the last pool.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include "tests/bench/operator_cluster.h"
#include "tests/bench/report.h"

namespace {

using namespace larder;
using namespace larder::bench;
using api::Object;
using std::chrono::seconds;
namespace resources = k8s::resources;

constexpr int kPools = 1000, kPodPools = 50, kPods = 1000, kMostPods = 5000;
constexpr seconds kMostReconcile{120}, kMostSettle{300}, kIdle{60}, kRounds{95}, kRound{35};

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool is_reconciled(const Object& pool) {
  return api::number_at(pool, "status.observedGeneration") ==
         api::number_at(pool, "metadata.generation");
}

// Asks until `test` holds of all pools; false: not in time.
bool await(OperatorCluster& cluster, seconds most,
           const std::function<bool(const std::vector<Object>&)>& test) {
  for (const auto end = std::chrono::steady_clock::now() + most;
       std::chrono::steady_clock::now() < end;) {
    const Result<k8s::List> pools = cluster.client().list(resources::kPools, {});
    if (pools.ok() && test(pools->items)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

// From the start of the process.
double reconcile_seconds(OperatorCluster& cluster, std::size_t count) {
  const auto begin = std::chrono::steady_clock::now();
  cluster.start_operator();
  const bool done = await(cluster, kMostReconcile, [count](const std::vector<Object>& pools) {
    return pools.size() == count && std::ranges::all_of(pools, is_reconciled);
  });
  return done ? since(begin) : static_cast<double>(kMostReconcile.count());
}

// Waits until the operator has seen so many pods, and reached a larderd of each pool.
void await_pods(OperatorCluster& cluster, int pods) {
  const bool seen = await(cluster, kMostSettle, [pods](const std::vector<Object>& pools) {
    std::int64_t attached = 0, answered = 0;
    for (const Object& pool : pools) {
      attached += api::number_at(pool, "status.pods.attached");
      answered += api::text_at(pool, "status.memory.text").empty() ? 0 : 1;
    }
    return attached == pods && answered == kPodPools;
  });
  if (!seen) cluster.fail("the operator did not see all pods, or did not reach their larderd");
}

double idle_percent(const OperatorCluster& cluster) {
  const double before = cluster.operator_cpu_s();
  std::this_thread::sleep_for(kIdle);
  return (cluster.operator_cpu_s() - before) / static_cast<double>(kIdle.count()) * 100;
}

void add_pods(OperatorCluster& cluster) {
  cluster.each(kPools - kPodPools, [](k8s::ApiClient& client, int i) {
    return client.remove(resources::kPools, kNamespace, pool_name(kPodPools + i));
  });
  cluster.each(kPods, [](k8s::ApiClient& client, int i) { return run_pod(client, i, kPodPools); });
  await_pods(cluster, kPods);
}

void set_peers(OperatorCluster& cluster, int fanout) {
  cluster.each(kPodPools, [fanout](k8s::ApiClient& client, int i) {
    Object pool = plain_pool(i);
    pool["spec"] = Object{{"peers", {{"fanout", fanout}}}};
    return client.apply(resources::kPools, pool).status();
  });
}

void bench_large(OperatorCluster& cluster, Report& report) {
  cluster.each(kNodes, make_node);
  set_peers(cluster, 16);
  cluster.each(kMostPods - kPods,
               [](k8s::ApiClient& client, int i) { return run_pod(client, kPods + i, kPodPools); });
  const auto begin = std::chrono::steady_clock::now();
  await_pods(cluster, kMostPods);
  report.add_row({{"what", "5,000 pods on 1,000 nodes: the last pods are in status, s"},
                  {"figure", since(begin)}});
  cluster.stop_operator();
  set_peers(cluster, 8);
  const double reconciled = reconcile_seconds(cluster, kPodPools);
  report.add_row({{"what", "from start: 50 changed pools reconciled, s"}, {"figure", reconciled}});
  report.add_row({{"what", "API calls until then"}, {"figure", cluster.operator_calls()}});
  await_pods(cluster, kMostPods);
  std::this_thread::sleep_for(kRound);
  report.add_row({{"what", "resident memory, MiB"}, {"figure", cluster.operator_rss_mib()}});
  const double calls = cluster.operator_calls();
  report.add_row(
      {{"what", "of one processor without changes, %"}, {"figure", idle_percent(cluster)}});
  report.add_row(
      {{"what", "API calls in this minute"}, {"figure", cluster.operator_calls() - calls}});
}

int run(const std::string& output, const std::string& programs) {
  OperatorCluster cluster(programs);
  Report report("operator");
  cluster.each(kPools, [](k8s::ApiClient& client, int i) {
    return client.create(resources::kPools, plain_pool(i)).status();
  });
  const double reconciled = reconcile_seconds(cluster, kPools);
  report.add_row({{"what", "1,000 pools reconciled, s"}, {"figure", reconciled}});
  add_pods(cluster);
  std::this_thread::sleep_for(kRounds);
  const double rss = cluster.operator_rss_mib();
  report.add_row({{"what", "resident memory at 1,000 pods of 50 pools, MiB"}, {"figure", rss}});
  const double idle = idle_percent(cluster);
  report.add_row({{"what", "of one processor without changes, %"}, {"figure", idle}});
  bench_large(cluster, report);
  report.add_goal("operator.reconcile_1000_s", reconciled, "<=", 10);
  report.add_goal("operator.rss_mib", rss, "<=", 64);
  report.add_goal("operator.idle_cpu_percent", idle, "<=", 2);
  return cluster.failed() || !report.finish(output) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: operator_bench OUTPUT PROGRAMS\n");
    return 2;
  }
  return run(argv[1], argv[2]);
}
