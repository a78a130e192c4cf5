// `larderctl backend check` of real Sentinels and real Clusters: well, partly away, set wrongly,
// without rights, of another kind.
#include "tests/component/backend_found.h"
#include "tests/component/cluster_processes.h"

namespace larder::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string hosts_of(const std::vector<remote::Endpoint>& endpoints) {
  std::string hosts;
  for (const remote::Endpoint& endpoint : endpoints)
    hosts += (hosts.empty() ? "" : ",") + remote::text_of(endpoint);
  return hosts;
}

class BackendCheckModesTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (server_program(GetParam()).empty())
      GTEST_SKIP() << "the server is not on this machine: make deps";
    files_.write("password", "hunter2\n");
  }
  std::string password(const std::string& option) const {
    return " --" + option + " " + files_.file("password");
  }
  const Certificates files_;
};

TEST_P(BackendCheckModesTest, ReportsClusterFindings) {
  std::vector<std::string> arguments = kWell;
  arguments.insert(arguments.end(), {"--cluster-require-full-coverage", "no"});
  ClusterProcesses cluster(GetParam(), 3, 0, false, arguments);
  const std::string url = "redis-cluster://" + remote::text_of(cluster.endpoints()[1]);
  const Outcome well = backend_check(url);
  EXPECT_LE(well.status, 1) << well.text;
  for (const remote::Endpoint& master : cluster.endpoints())
    EXPECT_THAT(well.text, HasSubstr("Master " + remote::text_of(master) + ", 5,46"));
  EXPECT_THAT(well.text, AllOf(HasSubstr("cluster, master"), HasSubstr("GET of 2 MiB    "),
                               HasSubstr("the master has no replica")));
  EXPECT_EQ(cluster.keys(), 0U);
  EXPECT_EQ(backend_found("redis-cluster://127.0.0.1:1," + remote::text_of(cluster.endpoints()[1])),
            "1 refused");
  cluster.server(2).ask({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  EXPECT_EQ(backend_found(url), "1 noeviction");
  EXPECT_THAT(backend_check(url).text,
              HasSubstr("  " + remote::text_of(cluster.endpoints()[2]) + ": maxmemory-policy is"));
  cluster.kill(2);
  EXPECT_EQ(backend_found(url), "1 refused") << "the others serve on";
  cluster.kill(0);
  cluster.kill(1);
  EXPECT_EQ(backend_found(url), "2 refused");
}

TEST_P(BackendCheckModesTest, ReportsMissingRightsOnClusterNodes) {
  ClusterProcesses cluster(GetParam(), 3, 0, false, kWell);
  const auto rights = [&](const std::vector<std::string>& more) {
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<std::string> words{"ACL", "SETUSER", "kv", "on", ">hunter2", "~larder:*"};
      words.insert(words.end(), more.begin(), more.end());
      ASSERT_EQ(cluster.server(i).ask(words).text, "OK");
    }
  };
  const std::string url =
      "redis-cluster://kv@" + remote::text_of(cluster.endpoints()[0]) + password("password-file");
  // As `larderctl backend check` says itself.
  rights({"+hello", "+ping", "+info", "+get", "+getrange", "+set", "+getdel", "+unlink", "+scan",
          "+cluster|slots", "+asking"});
  EXPECT_EQ(backend_found(url), "0");
  rights({"-asking"});
  EXPECT_EQ(backend_found(url), "1 rights");
  rights({"-cluster|slots"});
  EXPECT_EQ(backend_found(url), "2 rights");
  EXPECT_THAT(backend_check(url).text, HasSubstr("+cluster|slots +asking"));
}

// covers F-183
TEST_P(BackendCheckModesTest, Sentinels) {
  SentinelProcesses servers(GetParam(), kWell);
  const std::string url =
      "redis-sentinel://" + hosts_of(servers.endpoints()) + "/" + SentinelProcesses::kMaster;
  EXPECT_EQ(backend_found(url), "0");
  const std::string master = "127.0.0.1:" + std::to_string(servers.port(0));
  EXPECT_THAT(backend_check(url).text,
              AllOf(HasSubstr("names " + master + ", quorum 2 of 3"),
                    HasSubstr("Master " + master + "\n"), HasSubstr("GET of 2 MiB")));
  EXPECT_EQ(servers.server(0).ask({"DBSIZE"}).integer, 0);
  EXPECT_EQ(backend_found("redis-sentinel://" + hosts_of(servers.endpoints()) + "/nobody"),
            "2 sentinel-master");
  EXPECT_EQ(backend_found("redis-sentinel://" + master + "/pool"), "2 no-sentinel");
  EXPECT_EQ(backend_found("redis-cluster://" + master), "2 standalone");
  for (std::size_t i = 0; i < 3; ++i)
    ASSERT_EQ(servers.sentinel(i)
                  .ask({"ACL", "SETUSER", "watcher", "on", ">hunter2", "+hello", "+ping", "+info",
                        "+sentinel|get-master-addr-by-name"})
                  .text,
              "OK");
  EXPECT_EQ(backend_found(url + " --sentinel-user watcher" + password("sentinel-password-file")),
            "0")
      << "the least rights";
  for (std::size_t i = 0; i < 3; ++i)
    servers.sentinel(i).ask({"ACL", "SETUSER", "watcher", "-sentinel|get-master-addr-by-name"});
  EXPECT_EQ(backend_found(url + " --sentinel-user watcher" + password("sentinel-password-file")),
            "2 rights");
  servers.sentinel(1).kill();
  EXPECT_EQ(backend_found(url), "1 refused") << "the others name it";
  EXPECT_EQ(backend_found(url + " --sentinel-user nobody" + password("sentinel-password-file")),
            "2 wrong-password refused");
}

INSTANTIATE_TEST_SUITE_P(
    Servers, BackendCheckModesTest, testing::Values("redis-server", "valkey-server"),
    [](const auto& kind) {
      return std::string(kind.param).substr(0, std::string(kind.param).find('-'));
    });

}  // namespace
}  // namespace larder::test
