// larderd and larderctl for a user: options, messages, exit statuses, signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "shim/base/fd.h"
#include "tests/component/command.h"
#include "tests/component/larderd_process.h"
#include "tests/exported_metrics.h"
#include "tests/unit/text_file.h"

namespace larder::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kLarderd = LARDERD_PATH;
const std::string kLarderctl = LARDERCTL_PATH;

TEST(CommandLineTest, LarderdPrintsVersionAndHelp) {
  EXPECT_THAT(run(kLarderd + " --version").text, StartsWith("larderd 0."));
  const Outcome help = run(kLarderd + " --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.text,
              AllOf(HasSubstr("usage: larderd"), HasSubstr("LARDER_MEMORY_SIZE, default 5GiB")));
}

TEST(CommandLineTest, CheckConfigPrintsEffectiveConfiguration) {
  const Outcome good = run(kLarderd + " --check-config", "LARDER_POOL=blue LARDER_MEMORY_SIZE=3G");
  EXPECT_EQ(good.status, 0);
  EXPECT_THAT(good.text,
              AllOf(HasSubstr("size: \"3GiB\""), HasSubstr("socket: \"/run/larder/blue.sock\"")));
  const Outcome bad = run(kLarderd + " --check-config", "LARDER_MEMORY_SIZE=0");
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.text, StartsWith("larderd: environment: LARDER_MEMORY_SIZE '0' "));
  const Outcome misspelt = run(kLarderd + " --check-config", "LARDER_POOOL=blue");
  EXPECT_EQ(misspelt.status, 0);
  EXPECT_THAT(misspelt.text,
              HasSubstr("warning environment: LARDER_POOOL is no variable of larderd"));
}

// A page that is cut off must not look whole.
// covers F-109
TEST(CommandLineTest, FailedOutputExitsWithError) {
  for (const std::string& command :
       {kLarderd + " --check-config", kLarderd + " --help", kLarderctl + " --version",
        kLarderctl + " --help", std::string(OPERATOR_PATH " --metrics-reference")}) {
    const Outcome full = run("/bin/sh -c '" + command + " > /dev/full'");
    EXPECT_EQ(full.status, 1) << command;
    EXPECT_THAT(full.text, HasSubstr("not all of the output could be written")) << command;
  }
}

// After a wanted change: larderd --config-reference > docs/reference/configuration.md
TEST(CommandLineTest, ConfigurationPageEqualsLarderdOutput) {
  const Outcome printed = run(kLarderd + " --config-reference");
  EXPECT_EQ(printed.status, 0);
  EXPECT_THAT(printed.text, HasSubstr("| `memory.size` | `LARDER_MEMORY_SIZE` | `5GiB` |"));
  EXPECT_EQ(text_of(REPOSITORY_ROOT "/docs/reference/configuration.md"), printed.text)
      << "larderd --config-reference > docs/reference/configuration.md";
}

// After a wanted change: (larderd --metrics-reference && larder-operator --metrics-reference) >
// docs/reference/metrics.md
TEST(CommandLineTest, MetricsPageEqualsProgramOutput) {
  const Outcome larderd = run(kLarderd + " --metrics-reference"),
                of_operator = run(OPERATOR_PATH " --metrics-reference");
  EXPECT_EQ(larderd.status, 0);
  EXPECT_EQ(of_operator.status, 0);
  EXPECT_EQ(text_of(REPOSITORY_ROOT "/docs/reference/metrics.md"), larderd.text + of_operator.text)
      << "(larderd --metrics-reference && larder-operator --metrics-reference) > "
         "docs/reference/metrics.md";
}

TEST(CommandLineTest, WrongUsageIsRefusedByName) {
  const Outcome option = run(kLarderd + " --memory 5G");
  EXPECT_EQ(option.status, 2);
  EXPECT_THAT(option.text, StartsWith("larderd: '--memory' is no option of larderd"));
  EXPECT_THAT(run(kLarderd + " --config").text, StartsWith("larderd: '--config' needs a file"));
  for (const char* empty : {" --config ''", " --config="})  // of a shell's unset variable
    EXPECT_THAT(run(kLarderd + empty).text, StartsWith("larderd: '--config' needs a file"))
        << empty;
  EXPECT_THAT(run(kLarderd + " --config /nonexistent.yaml").text,
              HasSubstr("/nonexistent.yaml: No such file"));
  const std::pair<const char*, const char*> wrong[] = {
      {"", "which command?"},
      {"drop", "drop which namespace?"},
      {"clear everything", "'everything' is too much for 'clear'"},
      {"--verbose status", "'--verbose' is no option"},
      {"status --socket", "'--socket' needs a path"},
      {"restart", "'restart' is no command"}};
  for (const auto& [words, why] : wrong) {
    const Outcome usage = run(kLarderctl + " " + words);
    EXPECT_EQ(usage.status, 2) << words;
    EXPECT_THAT(usage.text,
                AllOf(StartsWith(std::string("larderctl: ") + why), HasSubstr("usage: larderctl")))
        << words;
  }
}

TEST(CommandLineTest, LarderctlReportsThatNoLarderdAnswers) {
  const Outcome away = run(kLarderctl + " status", "LARDER_SOCKET=/nonexistent/x.sock");
  EXPECT_EQ(away.status, 1);
  EXPECT_THAT(away.text, AllOf(HasSubstr("no larderd answers on /nonexistent/x.admin"),
                               HasSubstr("Is larderd running?")));
}

std::string get_over_unix_socket(const std::string& socket, const std::string& path) {
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: larderd\r\nConnection: close\r\n\r\n";
  std::string answer;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return answer;
  if (::write(fd.get(), request.data(), request.size()) != static_cast<ssize_t>(request.size()))
    return answer;
  char part[4096];
  for (ssize_t count = 0; (count = ::read(fd.get(), part, sizeof(part))) > 0;)
    answer.append(part, static_cast<std::size_t>(count));
  return answer;
}

// A folder and names of its own, ended by SIGTERM; the rest in /dev/shm goes at the end.
class RunningTest : public testing::Test {
 protected:
  RunningTest() {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/larder.yaml")
        << "pool: " << name_ << "\nsocket: " << folder_ << "/s.sock\nmemory: {size: 16MiB}\n"
        << "http: {listen: \"\"}\n";
  }
  ~RunningTest() override {
    EXPECT_EQ(run(command_ + " --free-memory").status, 0);
    EXPECT_FALSE(std::filesystem::exists(arena_));
    std::filesystem::remove_all(folder_);
  }

  Outcome ctl(const std::string& words) {
    return run(kLarderctl + " --socket " + folder_ + "/s.admin " + words);
  }
  bool answers() { return ctl("status").status == 0; }

  const std::string name_ = "cli" + std::to_string(::getpid());
  const std::string folder_ = testing::TempDir() + "larder_" + name_;
  const std::string command_ = kLarderd + " --config " + folder_ + "/larder.yaml";
  const std::string arena_ = "/dev/shm/larder-" + name_ + ".arena";
};

TEST_F(RunningTest, ServesAndEndsOnASignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ChildProcess larderd({kLarderd, "--config", folder_ + "/larder.yaml"});
    ASSERT_TRUE(eventually([&] { return answers(); }));
    EXPECT_THAT(ctl("status").text, HasSubstr("pool " + name_));
    EXPECT_EQ(ctl("clear").text, "dropped 0 chunks\n");
    EXPECT_EQ(ctl("--json clear").text, "{\n  \"dropped\": 0,\n  \"shared\": false\n}\n");
    const Outcome unknown = ctl("drop abcdef");
    EXPECT_EQ(unknown.status, 1);
    EXPECT_THAT(unknown.text, HasSubstr("no namespace"));
    EXPECT_THAT(run(kLarderctl + " --socket " + folder_ + "/s.sock status").text,
                HasSubstr("is the socket of the engines"));
    larderd.signal(signal);
    EXPECT_EQ(larderd.wait(30'000), 0);
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/s.admin"));
    EXPECT_TRUE(std::filesystem::exists(arena_)) << "it is for the next one";
  }
}

TEST_F(RunningTest, ExportsExactlyTheDocumentedMetrics) {
  ChildProcess larderd({kLarderd, "--config", folder_ + "/larder.yaml"});
  ASSERT_TRUE(eventually([&] { return answers(); }));
  const std::set<std::string> exported =
      families_of_scrape(get_over_unix_socket(folder_ + "/s.admin", "/metrics"));
  EXPECT_GT(exported.size(), 90U);
  EXPECT_EQ(exported,
            families_of_page(text_of(REPOSITORY_ROOT "/docs/reference/metrics.md"), "larderd"));
}

TEST_F(RunningTest, TraceIsRecordedAndReportsRequestCount) {
  ChildProcess larderd({kLarderd, "--config", folder_ + "/larder.yaml"});
  ASSERT_TRUE(eventually([&] { return answers(); }));
  const std::string file = folder_ + "/trace.jsonl";
  EXPECT_EQ(ctl("trace --seconds 1 --output " + file).text,
            "0 requests recorded in " + file + "\n");
  EXPECT_THAT(ctl("trace --seconds 1 --output " + file).text, HasSubstr("is there already"));
  EXPECT_THAT(ctl("trace --seconds 1 --output " + folder_ + "/none/trace").text,
              HasSubstr("No such file or directory"));
}

TEST_F(RunningTest, SecondLarderdIsRefusedAndFirstKeepsRunning) {
  ChildProcess first({kLarderd, "--config", folder_ + "/larder.yaml"});
  ASSERT_TRUE(eventually([&] { return answers(); }));
  const Outcome second = run(command_);
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.text, HasSubstr("another larderd"));
  EXPECT_EQ(run(command_ + " --free-memory").status, 1) << "freed under one that runs";
  EXPECT_TRUE(answers());
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(30'000), 0);
}

TEST_F(RunningTest, StartsAgainAfterBeingKilled) {
  {
    ChildProcess killed({kLarderd, "--config", folder_ + "/larder.yaml"});
    ASSERT_TRUE(eventually([&] { return answers(); }));
  }
  EXPECT_FALSE(answers());
  ChildProcess again({kLarderd, "--config", folder_ + "/larder.yaml"});
  EXPECT_TRUE(eventually([&] { return answers(); }));
  again.signal(SIGTERM);
  EXPECT_EQ(again.wait(30'000), 0);
}

}  // namespace
}  // namespace larder::test
