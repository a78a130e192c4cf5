// The command and configuration of a managed backend, run by the real servers on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/component/server_process.h"
#include "tests/unit/operator/desired/pool_case.h"

namespace larder::desired {
namespace {

namespace fs = std::filesystem;
using api::Object;
using testing::HasSubstr;

std::string said(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char line[512];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) text += line;
  ::pclose(pipe);
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// The container of a managed backend as a process: the same command, with this machine's folders
// and port in place of the pod's.
class Managed {
 public:
  Managed(const std::string& engine, const std::string& program, const std::string& password) {
    const std::string secret = password.empty() ? "" : ", password: {name: s}";
    const test::PoolCase one = test::pool_case(
        "{kind: CacheBackend, metadata: {name: m}, spec: {managed: {engine: " + engine +
        ", memory: 1Gi}" + secret + "}}");
    fs::create_directories(folder_ + "/server-auth");
    fs::create_directories(folder_ + "/server");
    set_password(password);
    const Object set = stateful_set(*one.backend, one.defaults);
    container_ = set["spec"]["template"]["spec"]["containers"][0];
    const std::string config = config_map(*one.backend)["data"]["server.conf"];
    std::ofstream(folder_ + "/server/server.conf") << here(config) << "bind 127.0.0.1\n";
    start(fs::path(program).parent_path());
  }
  ~Managed() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    fs::remove_all(folder_);
  }

  // Like the kubelet: the file of a changed Secret is replaced.
  void set_password(const std::string& password) const {
    const std::string file = folder_ + "/server-auth/password";
    std::ofstream(file + ".new") << password << "\n";
    fs::rename(file + ".new", file);
  }
  std::string ask(const std::string& words) const {
    return said("redis-cli -p " + port_ + " " + words);
  }
  // Whether SIGTERM ends the server in time: Kubernetes knows the server's process, not a shell
  // before it.
  bool ends() {
    ::kill(pid_, SIGTERM);
    for (int tries = 0; tries < 500; ++tries) {
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) return pid_ = -1, true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  std::string arguments() const {
    return said("tr '\\0' ' ' < /proc/" + std::to_string(pid_) + "/cmdline");
  }
  int probe() const {
    const std::string script = container_["readinessProbe"]["exec"]["command"][2];
    const std::string client = container_["command"].dump().find("valkey") != std::string::npos
                                   ? "valkey-cli"
                                   : "redis-cli";
    return std::system(replaced(script, client, "redis-cli -p " + port_).c_str());
  }

 private:
  std::string here(std::string text) const {
    text = replaced(text, "/etc/server", folder_ + "/server");
    // The server's own client is not on every machine, and the kubelet takes a minute.
    text = replaced(replaced(text, "valkey-cli -p 6379", "redis-cli -p " + port_),
                    "redis-cli -p 6379", "redis-cli -p " + port_);
    text = replaced(text, "sleep 5", "sleep 0.1");
    return replaced(replaced(text, "port 6379", "port " + port_), "dir /data", "dir " + folder_);
  }

  void start(const std::string& path) {
    std::vector<std::string> words;
    for (const Object& word : container_["command"]) words.push_back(here(word.get<std::string>()));
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::setenv("PATH", (path + ":" + std::getenv("PATH")).c_str(), 1);
      if (::freopen((folder_ + "/log").c_str(), "w", stdout) == nullptr) ::_exit(126);
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    for (int tries = 0; tries < 500 && ask("ping").find("refused") != std::string::npos; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  const std::string folder_ = testing::TempDir() + "/larder_managed." + std::to_string(::getpid());
  const std::string port_ = std::to_string(test::free_port());
  Object container_;
  pid_t pid_ = -1;
};

class ManagedServerTest : public testing::TestWithParam<const char*> {
 protected:
  const std::string program_ = test::server_program(GetParam() + std::string("-server"));
};

// The API server drops an empty field, and the wanted object would differ from the present one for
// ever.
TEST(ManagedServer, UnsetFieldsAreOmitted) {
  const test::PoolCase one =
      test::pool_case("{kind: CacheBackend, metadata: {name: m}, spec: {managed: {memory: 1Gi}}}");
  EXPECT_EQ(stateful_set(*one.backend, one.defaults).dump().find("imagePullPolicy"),
            std::string::npos);
}

TEST_P(ManagedServerTest, RunsWithItsConfiguration) {
  if (program_.empty()) GTEST_SKIP() << GetParam() << "-server is not here: make deps";
  Managed server(GetParam(), program_, "");
  EXPECT_THAT(server.ask("ping"), HasSubstr("PONG"));
  EXPECT_EQ(server.probe(), 0);
  // 9/10 of 1 GiB, less 64 MiB.
  EXPECT_THAT(server.ask("config get maxmemory"), HasSubstr("899258774"))
      << server.ask("config get maxmemory");
  EXPECT_THAT(server.ask("config get maxmemory-policy"), HasSubstr("allkeys-lru"));
  EXPECT_EQ(server.ask("config get save"), "save\n\n");
  EXPECT_THAT(server.ask("config get protected-mode"), HasSubstr("no"));
  EXPECT_TRUE(server.ends());
}

TEST_P(ManagedServerTest, RequiresThePasswordAndHidesIt) {
  if (program_.empty()) GTEST_SKIP() << GetParam() << "-server is not here: make deps";
  const std::string password = "o'd d\"\\$(x)`#%";
  Managed server(GetParam(), program_, password);
  EXPECT_THAT(server.ask("ping"), HasSubstr("NOAUTH"));
  EXPECT_EQ(server.probe(), 0) << "a server that wants a password lives";
  ::setenv("REDISCLI_AUTH", password.c_str(), 1);
  EXPECT_THAT(server.ask("ping"), HasSubstr("PONG"));
  ::unsetenv("REDISCLI_AUTH");
  EXPECT_THAT(server.arguments(),
              testing::AllOf(HasSubstr(GetParam()), testing::Not(HasSubstr("o'd"))));
  EXPECT_TRUE(server.ends());
}

// Larderd takes a changed password with its next connection: a server with the old password would
// refuse each connection until its pod is deleted.
TEST_P(ManagedServerTest, AcceptsAChangedPassword) {
  if (program_.empty()) GTEST_SKIP() << GetParam() << "-server is not here: make deps";
  Managed server(GetParam(), program_, "first");
  ASSERT_THAT(server.ask("--no-auth-warning -a first set key value"), HasSubstr("OK"));
  for (const std::string password : {"o'd d\"\\$(x)`#%", "third"}) {
    server.set_password("");  // no password at all is never taken: everybody would be served
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_THAT(server.ask("ping"), HasSubstr("NOAUTH"));
    server.set_password(password);
    ::setenv("REDISCLI_AUTH", password.c_str(), 1);
    for (int tries = 0; tries < 500 && server.ask("ping").find("PONG") == std::string::npos;
         ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_THAT(server.ask("get key"), testing::StrEq("value\n")) << "cached keys stay";
    ::unsetenv("REDISCLI_AUTH");
    EXPECT_THAT(server.ask("--no-auth-warning -a first ping"), HasSubstr("WRONGPASS"));
  }
  EXPECT_THAT(said("ps ax -o args"), testing::Not(HasSubstr("requirepass \"third")));
  EXPECT_TRUE(server.ends());
}

INSTANTIATE_TEST_SUITE_P(Engines, ManagedServerTest, testing::Values("redis", "valkey"),
                         [](const auto& engine) { return std::string(engine.param); });

}  // namespace
}  // namespace larder::desired
