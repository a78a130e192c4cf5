// A configuration that changes under a running larderd: the settings that larderd takes over, and
// the log about the rest.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/component/command.h"
#include "tests/component/larderd_process.h"

namespace larder::test {
namespace {

namespace fs = std::filesystem;

class ReloadTest : public testing::Test {
 protected:
  ReloadTest() {
    std::string pattern = (fs::temp_directory_path() / "larder-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    fs::create_directory(folder_ / "disk");
    write("4MiB", "back");
  }
  ~ReloadTest() override {
    larderd_.reset();
    fs::remove_all(folder_);
  }
  // Like the kubelet: the new file is there at once or not at all.
  void write(const std::string& size, const std::string& disk_write) {
    std::ofstream(folder_ / "new")
        << "socket: " << (folder_ / "l.sock").string() << "\nmemory:\n  size: " << size
        << "\n  directory: " << folder_.string()
        << "\ndisk:\n  path: " << (folder_ / "disk").string()
        << "\n  size: 64MiB\n  write: " << disk_write << "\nhttp:\n  listen: \"\"\n";
    fs::rename(folder_ / "new", file());
  }
  void start(std::vector<std::string> more = {}) {
    std::vector<std::string> command{LARDERD_PATH, "--config", file()};
    command.insert(command.end(), more.begin(), more.end());
    larderd_ = std::make_unique<ChildProcess>(command);
    ASSERT_TRUE(eventually([this] { return says("pool larder"); }, 60'000)) << status();
  }
  std::string file() const { return folder_ / "larder.yaml"; }
  std::string status() const {
    return run(std::string(LARDERCTL_PATH) + " --socket " + (folder_ / "l.admin").string() +
               " status")
        .text;
  }
  bool says(const std::string& text) const { return status().find(text) != std::string::npos; }
  void hang_up() { larderd_->signal(SIGHUP); }

  fs::path folder_;
  std::unique_ptr<ChildProcess> larderd_;
};

// covers F-120
TEST_F(ReloadTest, ChangedRestartKeyIsReportedUntilReverted) {
  start();
  EXPECT_FALSE(says("needs a restart"));
  write("8MiB", "through");
  hang_up();
  EXPECT_TRUE(eventually([this] { return says("needs a restart of larderd: memory.size"); }))
      << status();
  write("4MiB", "through");
  hang_up();
  EXPECT_TRUE(eventually([this] { return !says("needs a restart"); })) << status();
}

// covers F-120
TEST_F(ReloadTest, InvalidValueIsReportedAndIgnored) {
  start();
  write("4MiB", "sideways");
  hang_up();
  EXPECT_TRUE(eventually([this] {
    return says("disk.write 'sideways' is not one of: back, through");
  })) << status();
  EXPECT_TRUE(larderd_->running());
}

TEST_F(ReloadTest, AWatchedFileIsReadWhenItChanges) {
  start({"--watch-config"});
  write("8MiB", "back");
  EXPECT_TRUE(
      eventually([this] { return says("needs a restart of larderd: memory.size"); }, 60'000))
      << status();
  fs::remove(file());
  EXPECT_FALSE(
      eventually([this] { return !larderd_->running() || !says("needs a restart"); }, 5'000))
      << status();
}

// The arena stands after the configuration was read and some milliseconds before the first answer;
// until the change larderd gets no further.
TEST_F(ReloadTest, AWatchedFileThatChangedWhileLarderdStartedIsRead) {
  larderd_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{LARDERD_PATH, "--config", file(), "--watch-config"});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!fs::exists(folder_ / "larder.arena"))
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  larderd_->signal(SIGSTOP);
  write("8MiB", "back");
  larderd_->signal(SIGCONT);
  EXPECT_TRUE(
      eventually([this] { return says("needs a restart of larderd: memory.size"); }, 60'000))
      << status();
}

TEST_F(ReloadTest, UnwatchedFileIsNotRead) {
  start();
  write("8MiB", "back");
  EXPECT_FALSE(eventually([this] { return says("needs a restart"); }, 4'000)) << status();
}

}  // namespace
}  // namespace larder::test
