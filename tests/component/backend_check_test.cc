// `larderctl backend check` and real servers: well, set wrongly, closed to us, of another kind, and
// absent.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>

#include <fstream>

#include "sidecar/tiers/remote/chunks/remote_tier.h"
#include "tests/component/backend_found.h"
#include "tests/component/certificates.h"
#include "tests/component/larderd_process.h"
#include "tests/component/server_process.h"
#include "tests/conformance/tier_chunks.h"

namespace larder::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// An address of this machine that is not its loopback; empty: the machine has no such address.
std::string outer_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* one = all; one != nullptr && found.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
        (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    char text[INET_ADDRSTRLEN];
    found = ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr,
                        text, sizeof(text));
  }
  ::freeifaddrs(all);
  return found;
}

class BackendCheckTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (server_program(GetParam()).empty())
      GTEST_SKIP() << "the server is not on this machine: make deps";
  }
  void start(std::vector<std::string> arguments) {
    server_ = std::make_unique<ServerProcess>(GetParam(), std::move(arguments));
  }
  // Without a URL where `words` begin with one.
  std::string with_url(const std::string& words) const {
    const bool other =
        words.find("://") != std::string::npos || words.find("--config") != std::string::npos;
    return other ? words : "unix://" + server_->socket() + " " + words;
  }
  Outcome check(const std::string& words = "") { return backend_check(with_url(words)); }
  std::string found(const std::string& words = "") { return backend_found(with_url(words)); }
  std::string with_password(const std::string& password) {
    files_.write("password", password + "\n");
    return " --password-file " + files_.file("password");
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const remote::Reply& key : server_->ask({"KEYS", "*"}).elements) keys.push_back(key.text);
    return keys;
  }

  const Certificates files_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_P(BackendCheckTest, WellConfiguredServerPasses) {
  const std::uint16_t port = free_port();
  start(
      {"--maxmemory", "2gb", "--maxmemory-policy", "allkeys-lru", "--port", std::to_string(port)});
  const Outcome outcome = check("redis://127.0.0.1:" + std::to_string(port) + "/3");
  // on a busy machine the server is slow, and the check says so
  EXPECT_LE(outcome.status, 1) << outcome.text;
  EXPECT_THAT(
      outcome.text,
      AllOf(HasSubstr(std::string(GetParam()) == "valkey-server" ? "Valkey 8." : "Redis 7."),
            HasSubstr("standalone, master"), HasSubstr("2.0 GiB, allkeys-lru"),
            HasSubstr("no appendonly, no save points"), HasSubstr("us (")));
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("iB/s"), Not(HasSubstr("not measured")),
                                  HasSubstr("larderd can use the backend")));
  EXPECT_EQ(found(), "0");
  EXPECT_THAT(keys(), IsEmpty());
  EXPECT_THAT(server_->ask({"INFO", "keyspace"}).text, Not(HasSubstr("db3")));
}

TEST_P(BackendCheckTest, ReadsUrlAndPrefixFromConfigurationFile) {
  start(kWell);
  files_.write("larder.yaml", "pool: blue\nbackend: {url: 'unix://" + server_->socket() + "'}\n");
  const Outcome outcome = check("--config " + files_.file("larder.yaml"));
  EXPECT_LE(outcome.status, 1) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("keys larder-blue:*"));
  EXPECT_EQ(found("--config " + files_.file("larder.yaml")), "0");
  EXPECT_LE(run(std::string(LARDERCTL_PATH) + " backend check",
                "LARDER_BACKEND_URL=unix://" + server_->socket())
                .status,
            1);
}

// covers F-205
TEST_P(BackendCheckTest, ReportsWrongServerSettings) {
  start({});
  EXPECT_EQ(found(), "1 no-maxmemory");
  EXPECT_THAT(check().text, HasSubstr("-> CONFIG SET maxmemory "));
  server_->ask({"CONFIG", "SET", "maxmemory", "1000000gb"});
  EXPECT_EQ(found(), "1 noeviction too-much-memory");
  server_->ask({"CONFIG", "SET", "maxmemory", "2gb"});
  EXPECT_EQ(found(), "1 noeviction");
  server_->ask({"CONFIG", "SET", "maxmemory-policy", "volatile-lru"});
  EXPECT_EQ(found(), "1 volatile");
  server_->ask({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  server_->ask({"CONFIG", "SET", "save", "3600 1"});
  EXPECT_EQ(found(), "1 save");
  server_->ask({"CONFIG", "SET", "save", ""});
  server_->ask({"CONFIG", "SET", "appendonly", "yes"});
  EXPECT_EQ(found(), "1 appendonly");
  server_->ask({"CONFIG", "SET", "appendonly", "no"});
  EXPECT_EQ(found(), "0");
}

TEST_P(BackendCheckTest, ReportsServerClosingConnectionOnLargeValues) {
  start(kWell);
  server_->ask({"CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 1mb 0"});
  EXPECT_EQ(found(), "2 closed");
  EXPECT_THAT(check().text, HasSubstr("client-output-buffer-limit"));
}

// covers F-205
TEST_P(BackendCheckTest, ReportsServerRefusingWrites) {
  start({"--maxmemory", "8mb"});
  EXPECT_EQ(found(), "2 full noeviction") << "its room ends while it is measured";
  server_->ask({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(found(), "2 full noeviction");
  EXPECT_THAT(check().text, HasSubstr("maxmemory, and its policy evicts no key (OOM)"));
  server_->ask({"CONFIG", "SET", "maxmemory", "2gb"});
  server_->ask({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  ServerProcess replica(GetParam(), {"--maxmemory", "2gb", "--maxmemory-policy", "allkeys-lru"});
  replica.ask({"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_EQ(found("unix://" + replica.socket()), "2 replica");
  replica.ask({"CONFIG", "SET", "replica-read-only", "no"});
  EXPECT_EQ(found("unix://" + replica.socket()), "1 replica");
  replica.ask({"CONFIG", "SET", "replica-serve-stale-data", "no"});
  EXPECT_EQ(found("unix://" + replica.socket()), "2 replica");
}

// covers F-206
TEST_P(BackendCheckTest, UsersAndPasswords) {
  const std::uint16_t port = free_port();
  start(
      {"--maxmemory", "2gb", "--maxmemory-policy", "allkeys-lru", "--port", std::to_string(port)});
  const auto url = [port](const std::string& user) {
    return "redis://" + user + "127.0.0.1:" + std::to_string(port) + "/1";
  };
  const std::string password = with_password("hunter2");
  server_->ask({"ACL", "SETUSER", "kv", "on", ">hunter2", "~larder:*", "+hello", "+ping", "+info",
                "+select", "+get", "+getrange", "+set", "+getdel", "+unlink", "+scan"});
  EXPECT_EQ(found(url("kv@") + password), "0") << "no more than least_rights() says";
  EXPECT_THAT(check(url("kv@") + password).text,
              HasSubstr("save points, io-threads and databases are unknown"));
  EXPECT_EQ(found(url("kv@") + password + " --prefix other"), "2 rights");
  EXPECT_THAT(check(url("kv@") + password + " --prefix other").text,
              AllOf(HasSubstr("may not run GETRANGE, GET, SET, GETDEL, UNLINK on other:*"),
                    HasSubstr("ACL SETUSER kv on >PASSWORD ~other:*")));
  server_->ask({"ACL", "SETUSER", "kv", "-scan"});
  EXPECT_EQ(found(url("kv@") + password), "1 rights");
  server_->ask({"ACL", "SETUSER", "kv", "-info"});
  EXPECT_THAT(check(url("kv@") + password).text, HasSubstr("may not run INFO"));
  server_->ask({"ACL", "SETUSER", "kv", "-set"});
  EXPECT_EQ(found(url("kv@") + password), "2 rights");
  EXPECT_EQ(found(url("nobody@") + password), "2 wrong-password");
  EXPECT_EQ(found(url("kv@") + with_password("wrong")), "2 wrong-password");
  EXPECT_EQ(found(url("kv@") + " --password-file " + files_.file("nowhere")), "2 password-file");
  EXPECT_EQ(found(url("kv@") + " --password-file " + files_.file("")), "2 password-file")
      << "a folder";
  server_->ask({"CONFIG", "SET", "requirepass", "hunter2"});
  EXPECT_EQ(found(url("")), "2 no-password");
  EXPECT_EQ(found(url("") + with_password("hunter2")), "0");
  EXPECT_EQ(check("redis://kv:hunter2@127.0.0.1").status, 2);
}

// A server with the rights that the check calls enough is enough for a tier that puts, gets, looks
// and drops.
// covers F-208
TEST_P(BackendCheckTest, MinimalAclRightsSufficeForTier) {
  start(kWell);
  server_->ask({"ACL", "SETUSER", "kv", "on", ">hunter2", "~larder:*", "+hello", "+ping", "+info",
                "+get", "+getrange", "+set", "+getdel", "+unlink", "+scan"});
  with_password("hunter2");
  remote::RemoteOptions options;
  options.unix_path = server_->socket();
  options.user = "kv";
  options.password_file = files_.file("password");
  base::MonotonicClock clock;
  const std::unique_ptr<tiers::Tier> tier = *remote::open_remote_tier(clock, options);
  tiers::testing_support::Loop loop(*tier, clock);
  ASSERT_TRUE(loop.put(1).ok());
  EXPECT_TRUE(loop.get(1).ok());
  const std::vector<tiers::ChunkKey> asked{tiers::testing_support::key_of(1),
                                           tiers::testing_support::key_of(2)};
  EXPECT_THAT(loop.probe(asked), ElementsAre(true, false));
  const tiers::Ticket ticket = loop.next();
  ASSERT_TRUE(tier->clear(ticket, loop.in_ms(10'000)).ok());
  const std::optional<tiers::Message> cleared = loop.done(ticket);
  EXPECT_TRUE(cleared && cleared->status.ok());
  EXPECT_EQ(tier->state().reason, "");
}

// covers F-206, F-207
TEST_P(BackendCheckTest, Tls) {
  const std::uint16_t port = free_port(), plain = free_port();
  files_.authority("ca");
  files_.certificate("server", "ca", "DNS:cache.example,IP:127.0.0.1");
  files_.certificate("client", "ca", "DNS:client");
  start({"--maxmemory", "2gb", "--maxmemory-policy", "allkeys-lru", "--tls-port",
         std::to_string(port), "--port", std::to_string(plain), "--tls-cert-file",
         files_.file("server.crt"), "--tls-key-file", files_.file("server.key"),
         "--tls-ca-cert-file", files_.file("ca.crt"), "--tls-auth-clients", "no"});
  const std::string url = "rediss://127.0.0.1:" + std::to_string(port),
                    ca = " --ca-file " + files_.file("ca.crt");
  const std::string client =
      " --cert-file " + files_.file("client.crt") + " --key-file " + files_.file("client.key");
  EXPECT_EQ(found(url + ca), "0");
  EXPECT_EQ(found(url + ca + " --server-name cache.example"), "0");
  EXPECT_EQ(found(url + ca + " --server-name other.example"), "2 certificate-name");
  EXPECT_EQ(found(url), "2 certificate-authority");
  EXPECT_EQ(found(url + " --ca-file " + files_.file("nowhere")), "2 tls-files");
  EXPECT_EQ(found(url + ca + " --cert-file " + files_.file("client.crt") + " --key-file " +
                  files_.file("ca.key")),
            "2 tls-files");
  EXPECT_EQ(found("redis://127.0.0.1:" + std::to_string(port)), "2 closed");
  EXPECT_EQ(found("rediss://127.0.0.1:" + std::to_string(plain) + ca), "2 silent");
  EXPECT_THAT(check("rediss://127.0.0.1:" + std::to_string(plain) + ca).text,
              HasSubstr("A port without TLS is silent, too"));
  server_->ask({"CONFIG", "SET", "tls-auth-clients", "yes"});
  EXPECT_EQ(found(url + ca), "2 client-certificate");
  EXPECT_EQ(found(url + ca + client), "0");
  files_.authority("stranger");
  files_.certificate("client", "stranger", "DNS:client");
  EXPECT_EQ(found(url + ca + client), "2 client-certificate");
}

// covers F-206
TEST_P(BackendCheckTest, ReportsClusterNodeAndSentinelAsWrongKind) {
  // Without a port of its own, the server's bus would be at 10000, like that of every other server.
  start({"--cluster-enabled", "yes", "--cluster-port", std::to_string(free_port()), "--maxmemory",
         "2gb", "--maxmemory-policy", "allkeys-lru"});
  EXPECT_EQ(found(), "2 cluster");
  const std::uint16_t port = free_port();
  files_.write("sentinel.conf", "port " + std::to_string(port) +
                                    "\nlogfile /dev/null\nsentinel monitor kv 127.0.0.1 7777 1\n");
  ChildProcess sentinel({server_program(GetParam()), files_.file("sentinel.conf"), "--sentinel"});
  const std::string url = "redis://127.0.0.1:" + std::to_string(port);
  ASSERT_TRUE(eventually([&] { return found(url) != "2 refused"; }));
  EXPECT_EQ(found(url), "2 sentinel");
  EXPECT_THAT(check(url).text,
              AllOf(HasSubstr("sentinel"), HasSubstr("redis-sentinel://HOST:PORT")));
  EXPECT_EQ(found("redis-cluster://127.0.0.1:" + std::to_string(port)), "2 sentinel");
}

// covers F-206
TEST_P(BackendCheckTest, ReportsUnreachableOrSilentServer) {
  EXPECT_EQ(found("redis://127.0.0.1:" + std::to_string(free_port())), "2 refused");
  EXPECT_EQ(found("unix:///nowhere/server.sock"), "2 no-socket");
  EXPECT_EQ(found("redis://nowhere.invalid"), "2 unreachable");
  start(kWell);
  EXPECT_EQ(found("unix://" + server_->socket() + " --prefix larder"), "0");
  server_->ask({"CONFIG", "SET", "maxclients", "1"});
  EXPECT_EQ(found("unix://" + server_->socket()), "0");
  server_->signal(SIGSTOP);
  EXPECT_EQ(found(), "2 silent");
  server_->signal(SIGCONT);
}

TEST_P(BackendCheckTest, ReportsMissingDatabase) {
  const std::uint16_t port = free_port();
  start({"--maxmemory", "2gb", "--maxmemory-policy", "allkeys-lru", "--port", std::to_string(port),
         "--databases", "4"});
  const std::string url = "redis://127.0.0.1:" + std::to_string(port);
  EXPECT_EQ(found(url + "/3"), "0");
  EXPECT_EQ(found(url + "/4"), "2 no-database");
  EXPECT_THAT(check(url + "/4").text, HasSubstr("the server has 4 databases"));
}

// covers F-206
TEST_P(BackendCheckTest, ProtectedMode) {
  const std::string address = outer_address();
  if (address.empty()) GTEST_SKIP() << "no address but the loopback's";
  const std::uint16_t port = free_port();
  start({"--port", std::to_string(port), "--bind", "0.0.0.0"});
  EXPECT_EQ(found("redis://" + address + ":" + std::to_string(port)), "2 protected-mode");
}

TEST(BackendCheckArgumentsTest, WrongArgumentsExitWithStatusTwo) {
  const auto said = [](const std::string& words) {
    const Outcome outcome = run(std::string(LARDERCTL_PATH) + " backend " + words);
    EXPECT_EQ(outcome.status, 2) << words;
    return outcome.text.substr(0, outcome.text.find('\n'));
  };
  EXPECT_EQ(said(""), "larderctl: which command? backend check [URL]");
  EXPECT_EQ(said("chek"),
            "larderctl: 'chek' is not a command of backend: write backend check [URL]");
  EXPECT_EQ(said("check"),
            "larderctl: which backend? Name its URL, redis://host:6379, or --config FILE with "
            "backend.url");
  EXPECT_EQ(said("check --prefix x"),
            "larderctl: '--prefix' goes with a URL; else the configuration says");
  EXPECT_EQ(said("check redis://h --config /x"),
            "larderctl: a URL or --config FILE: one of the two");
  EXPECT_EQ(said("check redis://h --ca-file /x"),
            "larderctl: backend.ca_file is /x and backend.url is without TLS: make it rediss://");
  EXPECT_EQ(said("check redis://h --ca-file="), "larderctl: '--ca-file' needs a file");
  EXPECT_EQ(said("check redis://u@h"),
            "larderctl: backend.url names a user and backend.password_file is not set");
  EXPECT_THAT(said("check redis://u:hunter2@h"),
              AllOf(HasSubstr("the URL holds a password"), Not(HasSubstr("hunter2"))));
}

INSTANTIATE_TEST_SUITE_P(
    Servers, BackendCheckTest, testing::Values("redis-server", "valkey-server"),
    [](const auto& kind) {
      return std::string(kind.param).substr(0, std::string(kind.param).find('-'));
    });

}  // namespace
}  // namespace larder::test
