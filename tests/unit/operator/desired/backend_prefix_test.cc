// The prefix of a pool's keys keeps the chunks of pools apart on a server with many pools.
#include <gtest/gtest.h>

#include <set>

#include "operator/desired/larderd.h"
#include "sidecar/config/values.h"

namespace larder::desired {
namespace {

std::string prefix(const std::string& ns, const std::string& name) {
  api::CachePool pool;
  pool.ns = ns;
  pool.name = name;
  return backend_prefix(pool);
}

// W10: names of namespaces and pools hold dashes and no dots.
// covers F-245
TEST(BackendPrefix, IsUniquePerPool) {
  EXPECT_NE(prefix("team", "a-b"), prefix("team-a", "b"));
  const std::string words[] = {"a", "b", "a-b", "b-a", "a-b-a", "b-a-b", "a--b"};
  std::set<std::string> seen;
  for (const std::string& ns : words)
    for (const std::string& name : words)
      EXPECT_TRUE(seen.insert(prefix(ns, name)).second) << ns << " " << name;
}

// No name is cut: two long names with one beginning stay two.
// covers F-245
TEST(BackendPrefix, LongestNamesAreNotCutAndAcceptedByLarderd) {
  const std::string ns(63, 'n'), name(45, 'p');
  EXPECT_EQ(prefix(ns, name), ns + "." + name);
  EXPECT_TRUE(config::check_prefix(prefix(ns, name)).ok());
}

TEST(BackendPrefix, ConfiguredPrefixWins) {
  api::CachePool pool;
  pool.ns = "team", pool.name = "a", pool.spec.backend_prefix = "shared";
  EXPECT_EQ(backend_prefix(pool), "shared");
}

}  // namespace
}  // namespace larder::desired
