// `larderd --supervise`: a real larderd under its supervisor, as in an engine's pod.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/component/command.h"
#include "tests/component/larderd_process.h"

namespace larder::test {
namespace {

namespace fs = std::filesystem;

class SuperviseTest : public testing::Test {
 protected:
  SuperviseTest() {
    std::string pattern = (fs::temp_directory_path() / "larder-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~SuperviseTest() override {
    supervisor_.reset();
    fs::remove_all(folder_);
  }
  void configure(const std::string& size) const {
    std::ofstream(folder_ / "new")
        << "socket: " << (folder_ / "l.sock").string() << "\nmemory:\n  size: " << size
        << "\n  directory: " << folder_.string() << "\nhttp:\n  listen: \"\"\n";
    fs::rename(folder_ / "new", folder_ / "larder.yaml");
  }
  void start() {
    supervisor_ = std::make_unique<ChildProcess>(std::vector<std::string>{
        LARDERD_PATH, "--config", folder_ / "larder.yaml", "--supervise", pages()});
  }
  std::string pages() const { return folder_ / "supervisor"; }
  std::string ctl(const std::string& socket, const std::string& verb) const {
    return run(std::string(LARDERCTL_PATH) + " --socket " + socket + " " + verb).text;
  }
  bool answers(const std::string& verb) const {
    return run(std::string(LARDERCTL_PATH) + " --socket " + pages() + " " + verb).status == 0;
  }
  pid_t larderd() const {
    std::ifstream children("/proc/" + std::to_string(supervisor_->pid()) + "/task/" +
                           std::to_string(supervisor_->pid()) + "/children");
    pid_t pid = 0;
    children >> pid;
    return pid;
  }

  fs::path folder_;
  std::unique_ptr<ChildProcess> supervisor_;
};

// covers F-210
TEST_F(SuperviseTest, KilledLarderdIsRestartedWhileSupervisorKeepsAnswering) {
  configure("4MiB");
  start();
  ASSERT_TRUE(eventually([&] { return answers("started"); }, 30'000));
  const pid_t first = larderd();
  ASSERT_GT(first, 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_TRUE(answers("alive"));
  EXPECT_TRUE(answers("started"));
  ASSERT_TRUE(
      eventually([&] { return larderd() > 0 && larderd() != first && answers("ready"); }, 30'000));
  EXPECT_TRUE(supervisor_->running());
}

// covers F-209
TEST_F(SuperviseTest, LarderdThatCannotStartIsReportedAndStartsOnceFixed) {
  configure("nonsense");
  start();
  ASSERT_TRUE(eventually(
      [&] { return ctl(pages(), "ready").find("memory.size") != std::string::npos; }, 30'000))
      << ctl(pages(), "ready");
  EXPECT_FALSE(answers("ready"));
  EXPECT_TRUE(answers("alive"));
  configure("4MiB");
  EXPECT_TRUE(eventually([&] { return answers("ready"); }, 60'000));
}

// In a pod probes ask at the socket, and the operator at the port.
TEST_F(SuperviseTest, EveryAddressIsAnswered) {
  configure("4MiB");
  const std::string other = folder_ / "other";
  supervisor_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{LARDERD_PATH, "--config", folder_ / "larder.yaml", "--supervise",
                               pages(), "--supervise=" + other});
  EXPECT_TRUE(eventually([&] { return answers("started"); }, 30'000));
  EXPECT_EQ(run(std::string(LARDERCTL_PATH) + " --socket " + other + " alive").status, 0);
}

TEST_F(SuperviseTest, SigtermStopsBoth) {
  configure("4MiB");
  start();
  ASSERT_TRUE(eventually([&] { return answers("ready"); }, 30'000));
  const pid_t child = larderd();
  supervisor_->signal(SIGTERM);
  EXPECT_EQ(supervisor_->wait(30'000), 0);
  EXPECT_NE(::kill(child, 0), 0);
}

TEST_F(SuperviseTest, LarderdDoesNotOutliveItsSupervisor) {
  configure("4MiB");
  start();
  ASSERT_TRUE(eventually([&] { return answers("ready"); }, 30'000));
  const fs::path program = "/proc/" + std::to_string(larderd()) + "/exe";
  supervisor_->kill();
  // about a dead and unreaped process the kernel says nothing either
  const auto gone = [&program] {
    std::error_code error;
    static_cast<void>(fs::read_symlink(program, error));
    return static_cast<bool>(error);
  };
  EXPECT_TRUE(eventually(gone, 30'000));
}

TEST_F(SuperviseTest, InvalidAddressIsRefusedByName) {
  configure("4MiB");
  const Outcome outcome = run(std::string(LARDERD_PATH) + " --supervise nowhere");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text.find("--supervise nowhere"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace larder::test
