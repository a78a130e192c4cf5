// An unread log: standard error is a pipe that is full from the start. larderd, its supervisor and
// the operator serve and end all the same, and count dropped lines.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "tests/component/command.h"
#include "tests/component/logged_larderd.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/client.h"

namespace larder::test {
namespace {

namespace fs = std::filesystem;
using client::testing_support::EngineClient;
using client::testing_support::PageLayout;

constexpr int kAttaches = 1000, kPatienceMs = 30'000, kMostToEndMs = 10'000;
const PageLayout kSmall{"small", 1, 1, 4096, 0, false, 0};

class UnreadLogTest : public testing::Test {
 protected:
  UnreadLogTest() {
    std::string pattern = (fs::temp_directory_path() / "larder-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    EXPECT_EQ(::pipe2(pipe_.data(), O_CLOEXEC), 0);
    // So small that the lines of a start fill the pipe.
    EXPECT_GT(::fcntl(pipe_[1], F_SETPIPE_SZ, 4096), 0);
    fill();
    std::ofstream(folder_ / "larder.yaml")
        << "socket: " << (folder_ / "l.sock").string()
        << "\nlog_level: debug\nmemory:\n  size: 8MiB\n  directory: " << folder_.string()
        << "\nhttp:\n  listen: \"\"\n  admin_socket: " << (folder_ / "l.admin").string() << "\n";
  }
  ~UnreadLogTest() override {
    process_.reset();
    ::close(pipe_[0]);
    ::close(pipe_[1]);
    fs::remove_all(folder_);
  }

  void fill() const {
    ::fcntl(pipe_[1], F_SETFL, O_NONBLOCK);
    while (::write(pipe_[1], ".", 1) == 1) {
    }
    ::fcntl(pipe_[1], F_SETFL, 0);
  }
  // Standard error is the pipe.
  void start(const std::string& command) {
    const std::string to_pipe = "exec " + command + " >/dev/null 2>/proc/" +
                                std::to_string(::getpid()) + "/fd/" + std::to_string(pipe_[1]);
    process_ = std::make_unique<ChildProcess>(std::vector<std::string>{"/bin/sh", "-c", to_pipe});
  }
  std::string larderd(const std::string& more = "") const {
    return std::string(LARDERD_PATH) + " --config " + (folder_ / "larder.yaml").string() + more;
  }
  Outcome ctl(const char* socket, const std::string& verb) const {
    return run(std::string(LARDERCTL_PATH) + " --socket " + (folder_ / socket).string() + " " +
               verb);
  }
  bool ready() const { return ctl("l.admin", "ready").status == 0; }
  std::uint64_t dropped() const {
    const std::string text =
        run("curl -s --unix-socket " + (folder_ / "l.admin").string() + " http://larderd/metrics")
            .text;
    const std::string name = "\nlarder_log_dropped_lines_total ";
    const std::size_t at = text.find(name);
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + name.size()));
  }
  // Sessions that come and go, and at last an engine of the product.
  void attach_many() const {
    for (int i = 0; i < kAttaches; ++i) {
      loop::testing_support::Client one((folder_ / "l.sock").string());
      ASSERT_TRUE(one.connected()) << "attach " << i;
      one.attach();
      if (HasFatalFailure()) return;
      one.open_namespace("a: 1");
    }
    EngineClient engine((folder_ / "l.sock").string(), kSmall);
    ASSERT_TRUE(engine.client->wait_attached(kPatienceMs).ok());
    EXPECT_EQ(engine.store(0, 2).stored, 2U);
    EXPECT_TRUE(engine.await_present(0, 2));
  }
  std::string read_all() const {
    ::fcntl(pipe_[0], F_SETFL, O_NONBLOCK);
    std::string text;
    eventually(
        [&] {
          std::array<char, 65536> buffer{};
          for (ssize_t got = 0; (got = ::read(pipe_[0], buffer.data(), buffer.size())) > 0;)
            text.append(buffer.data(), static_cast<std::size_t>(got));
          return text.find("stopping on SIGTERM") != std::string::npos;
        },
        kPatienceMs);
    return text;
  }
  // The moment as the log's lines begin.
  static std::string now_as_logged() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%FT%TZ", &parts);
    return text.data();
  }
  void expect_end() {
    const auto began = std::chrono::steady_clock::now();
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(kPatienceMs), 0);
    EXPECT_LE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(kMostToEndMs));
  }

  fs::path folder_;
  std::array<int, 2> pipe_{};
  std::unique_ptr<ChildProcess> process_;
};

// covers F-107
TEST_F(UnreadLogTest, LarderdServesAndEndsWithUnreadLog) {
  start(larderd());
  ASSERT_TRUE(eventually([&] { return ready(); }, kPatienceMs));
  attach_many();
  EXPECT_EQ(ctl("l.admin", "alive").status, 0);
  expect_end();
}

// covers F-107
TEST_F(UnreadLogTest, SupervisorServesAndEndsWithUnreadLog) {
  start(larderd(" --supervise " + (folder_ / "supervisor").string()));
  ASSERT_TRUE(eventually([&] { return ctl("supervisor", "ready").status == 0; }, kPatienceMs));
  attach_many();
  EXPECT_EQ(ctl("supervisor", "alive").status, 0);
  EXPECT_EQ(ctl("supervisor", "ready").status, 0);
  EXPECT_EQ(ctl("l.admin", "alive").status, 0);
  expect_end();
}

// covers F-107
TEST_F(UnreadLogTest, ReturningReaderReceivesTheLines) {
  start(larderd());
  ASSERT_TRUE(eventually([&] { return ready(); }, kPatienceMs));
  process_->signal(SIGTERM);
  const std::string text = read_all();
  EXPECT_NE(text.find("engines attach at"), std::string::npos) << text;
  EXPECT_EQ(process_->wait(kPatienceMs), 0);
}

// The pipe stays full while larderd is idle: few lines come to the queue, and few are dropped.
// covers F-107
TEST_F(UnreadLogTest, IdleLarderdQueuesFewLines) {
  start(larderd());
  ASSERT_TRUE(eventually([&] { return ready(); }, kPatienceMs));
  attach_many();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const std::uint64_t dropped_before = dropped();
  const std::string from = now_as_logged();
  std::this_thread::sleep_for(std::chrono::seconds(idle_seconds()));
  const std::string until = now_as_logged();
  const std::uint64_t dropped_since = dropped() - dropped_before;
  process_->signal(SIGTERM);
  const std::string text = read_all();
  std::string idle;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line > from && line < until) idle += line + "\n";
  EXPECT_NE(text.find("engines attach at"), std::string::npos);
  expect_few("a log that is not read", lines_of(idle) + dropped_since, 0, idle);
}

// A log file that may grow no more is as a full disk.
// covers F-107
TEST_F(UnreadLogTest, FullLogFileDropsAreCounted) {
  process_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{"/bin/sh", "-c", "exec " + larderd() + " >/dev/null 2>/dev/full"});
  ASSERT_TRUE(eventually([&] { return ready(); }, kPatienceMs));
  EXPECT_TRUE(eventually([&] { return dropped() > 0; }, kPatienceMs));
  expect_end();
}

// covers F-107
TEST_F(UnreadLogTest, LarderdCountsLinesDroppedBySupervisor) {
  process_ = std::make_unique<ChildProcess>(std::vector<std::string>{
      "/bin/sh", "-c",
      "exec " + larderd(" --supervise " + (folder_ / "supervisor").string()) +
          " >/dev/null 2>/dev/full"});
  ASSERT_TRUE(eventually([&] { return ready(); }, kPatienceMs));
  EXPECT_TRUE(eventually([&] { return dropped() > 0; }, kPatienceMs));
  expect_end();
}

// covers F-107
TEST_F(UnreadLogTest, FailedStartExitsWithItsStatus) {
  std::ofstream(folder_ / "larder.yaml") << "memory:\n  size: nonsense\n";
  start(larderd());
  EXPECT_EQ(process_->wait(kMostToEndMs), 2);
}

// There is no API server: the operator waits for one.
// covers F-107
TEST_F(UnreadLogTest, OperatorEndsWithUnreadLog) {
  std::ofstream(folder_ / "kubeconfig")
      << "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: "
         "{cluster: x, user: x}}]\n"
         "clusters: [{name: x, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: x, user: "
         "{token: t}}]\n";
  start(std::string(OPERATOR_PATH) + " --kubeconfig " + (folder_ / "kubeconfig").string() +
        " --namespace=larder --image=larder:1");
  std::this_thread::sleep_for(std::chrono::seconds(1));
  expect_end();
}

// Started by a supervisor that closes all three: no line goes into a file with number 2.
// covers F-107, F-108
TEST_F(UnreadLogTest, ClosedStandardStreamsAreOpenedFirst) {
  process_ = std::make_unique<ChildProcess>(std::vector<std::string>{
      "/bin/sh", "-c",
      "exec " + larderd(" --supervise " + (folder_ / "supervisor").string()) + " <&- >&- 2>&-"});
  ASSERT_TRUE(eventually([&] { return ready(); }, kPatienceMs));
  for (const char* number : {"0", "1", "2"})
    EXPECT_EQ(fs::read_symlink("/proc/" + std::to_string(process_->pid()) + "/fd/" + number),
              "/dev/null")
        << number;
  expect_end();
  for (const fs::path& file : fs::directory_iterator(folder_)) {
    if (!fs::is_regular_file(file) || file.extension() == ".yaml") continue;
    std::ifstream bytes(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(bytes)), {});
    EXPECT_EQ(text.find("engines attach at"), std::string::npos) << file;
  }
}

// covers F-107, F-108
TEST_F(UnreadLogTest, FileSizeLimitIsReported) {
  const Outcome outcome = run("/bin/sh -c 'ulimit -f 1000; exec " + larderd() + "'");
  EXPECT_EQ(outcome.status, 1);
  for (const char* words : {"this process may write no file over ", " KiB; raise its limit",
                            "ulimit -f unlimited", ".arena"})
    EXPECT_NE(outcome.text.find(words), std::string::npos) << outcome.text;
}

// covers F-107
TEST_F(UnreadLogTest, NonAsciiNamesAreShownUnchanged) {
  start(larderd());
  ASSERT_TRUE(eventually([&] { return ready(); }, kPatienceMs));
  loop::testing_support::Client one((folder_ / "l.sock").string());
  one.attach();
  ASSERT_TRUE(one.send_open_namespace("a: 1", 4096, 2, "模型 größe").ok());
  ASSERT_TRUE(one.receive().ok());
  for (const char* verb : {"status", "status --json"})
    EXPECT_TRUE(eventually(
        [&] { return ctl("l.admin", verb).text.find("模型 größe") != std::string::npos; },
        kPatienceMs))
        << verb;
  process_->signal(SIGTERM);
  EXPECT_NE(read_all().find("model '模型 größe'"), std::string::npos);
}

}  // namespace
}  // namespace larder::test
