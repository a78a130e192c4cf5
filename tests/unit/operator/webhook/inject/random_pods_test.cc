// 10,000 random pods; `make test-inject` runs a million. LARDER_TEST_PODS and LARDER_TEST_SEED set
// others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <set>

#include "tests/unit/operator/webhook/inject/promises.h"
#include "tests/unit/operator/webhook/inject/random_pod.h"

namespace larder::test {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RandomPods, KeepEveryPromise) {
  const std::uint64_t count = setting("LARDER_TEST_PODS", 10'000),
                      seed = setting("LARDER_TEST_SEED", 20261122);
  RandomPods pods(seed);
  std::set<std::string> shapes;
  std::uint64_t injected = 0, damaged = 0;
  for (std::uint64_t at = 0; at < count; ++at) {
    const RandomPod pod = pods.next();
    shapes.insert(pod.shape);
    damaged += pod.damaged ? 1 : 0;
    const std::string broken = broken_promise(pod.one);
    ASSERT_EQ(broken, "") << "seed " << seed << ", pod " << at << ":\n" << pod.one.pod.dump(1);
    if (pod.one.inject().refused.empty()) ++injected;
  }
  std::cout << "seed " << seed << ": " << count << " pods of " << shapes.size() << " shapes, "
            << damaged << " damaged, " << injected << " injected\n";
  EXPECT_GE(shapes.size(), std::min<std::uint64_t>(200, count));
  EXPECT_GE(injected, count / 20);
}

TEST(RandomPods, AreTheSameForTheSameSeed) {
  RandomPods first(7), second(7), other(8);
  const RandomPod one = first.next();
  EXPECT_EQ(one.one.pod, second.next().one.pod);
  EXPECT_NE(one.one.pod, other.next().one.pod);
}

}  // namespace
}  // namespace larder::test
