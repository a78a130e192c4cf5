// The nth allocation, mmap, open, read or write of larderd or of an engine fails, for every n until
// a scenario passes without a failure: larderd starts, an engine attaches, stores and loads,
// larderd stops, and another larderd starts with the files of the first. Over a disk the engine
// first fetches and drops the chunks of the round before, in a larderd that has lost its memory.
//
// Only larderd may end, with a log line; no byte is wrong, no resource is left over. `make test`
// tries about a dozen n of each kind. NTH_STRIDE: the step of n (with CRASH_SUITE=whole 1, but 5
// for allocations over a disk, which would take as long as all other calls). NTH_FIRST: the first
// n.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/component/larderd_process.h"
#include "tests/crash/crash_test.h"

namespace larder::crash {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Case {
  const char* kind;
  int small_stride;
  bool disk = false;
  int whole_stride = 1;
};

class NthCall : public testing::TestWithParam<Case> {
 protected:
  NthCall() {
    std::string pattern = (fs::temp_directory_path() / "larder-nth-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    name_ = fs::path(folder_).filename().string();
    mark_ = folder_ + "/mark";
    std::ofstream(folder_ + "/larder.yaml")
        << "socket: " << socket()
        << "\nlog_level: error\nmemory:\n  size: 1MiB\n  shm_name: " << name_
        << "\nhttp:\n  listen: \"\"\n  admin_socket: " << folder_ << "/larder.admin\n"
        << (GetParam().disk ? disk_.lines(34, "through") : "");
  }
  ~NthCall() override {
    fs::remove_all(folder_);
    for (const std::string& file : files()) fs::remove("/dev/shm/" + file);
  }

  std::string socket() const { return folder_ + "/larder.sock"; }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& file : fs::directory_iterator("/dev/shm"))
      if (const std::string name = file.path().filename().string(); name.starts_with(name_ + "."))
        found.push_back(name);
    return found;
  }
  // A command whose n-th call of this case's kind fails; n < 0: no failure.
  std::unique_ptr<ChildProcess> run(Words command, long n) const {
    Words words{"/usr/bin/env"};
    if (n >= 0) {
      words.push_back(std::string("LD_PRELOAD=") + NTH_CALL_PATH);
      words.push_back(std::string("NTH_KIND=") + GetParam().kind);
      words.push_back("NTH_CALL=" + std::to_string(n));
      words.push_back("NTH_MARK=" + mark_);
      if (std::strchr("rw", GetParam().kind[0]) != nullptr) words.push_back("NTH_NO_URING=1");
    }
    words.insert(words.end(), command.begin(), command.end());
    return std::make_unique<ChildProcess>(words);
  }
  std::unique_ptr<ChildProcess> larderd(long n) const {
    return run({LARDERD_PATH, "--config", folder_ + "/larder.yaml"}, n);
  }
  // Whether larderd listens; false once larderd has ended.
  bool listens(ChildProcess& larderd) const {
    eventually([&] { return fs::exists(socket()) || !larderd.running(); }, 10'000);
    return larderd.running();
  }
  // SIGTERM; after a hanging stop SIGKILL. Returns the exit status.
  static int stop(ChildProcess& larderd) {
    larderd.signal(SIGTERM);
    const int status = larderd.wait(15'000);
    return status == -1 ? larderd.kill() : status;
  }
  int engine(long n, const char* mode = "below") const {
    Words command{NTH_ENGINE_PATH, socket()};
    if (GetParam().disk) command.push_back(mode);
    return run(command, n)->wait(20'000);
  }
  bool take_mark() const { return fs::remove(mark_); }
  void free_memory() const {
    EXPECT_EQ(run({LARDERD_PATH, "--config", folder_ + "/larder.yaml", "--free-memory"}, -1)
                  ->wait(10'000),
              0);
    EXPECT_THAT(files(), testing::IsEmpty()) << "left behind";
  }
  // One whole life without a fault, which leaves chunks on the disk and no chunk in memory; finds
  // the chunks of the life before.
  void live_once(const char* mode) const {
    std::unique_ptr<ChildProcess> one = larderd(-1);
    ASSERT_TRUE(listens(*one));
    ASSERT_EQ(engine(-1, mode), 0) << "5: nothing came up from the disk";
    ASSERT_EQ(stop(*one), 0);
    free_memory();
  }
  static int stride(int small) {
    if (const char* text = std::getenv("NTH_STRIDE")) return std::atoi(text);
    return whole() ? GetParam().whole_stride : small;
  }

  static long first() {
    const char* text = std::getenv("NTH_FIRST");
    return text != nullptr ? std::atol(text) : 0;
  }

  const DiskFolder disk_;
  std::string folder_, name_, mark_;
};

// The process ended by itself, with a line that says why: 2 after a failed read of its
// configuration.
bool ended_by_itself(int status) {
  return status == 1 || status == 2;
}

TEST_P(NthCall, FailureInLarderdCostsAMissOrAStartOnly) {
  if (GetParam().disk) live_once("below");
  if (GetParam().disk && !HasFatalFailure()) live_once("must");
  if (HasFatalFailure()) return;
  long n = first(), ended = 0, missed = 0;
  const int step = stride(GetParam().small_stride);
  for (;; n += step) {
    SCOPED_TRACE(std::string(GetParam().kind) + " " + std::to_string(n));
    std::unique_ptr<ChildProcess> first = larderd(n);
    if (listens(*first)) {
      const int status = engine(-1);
      ASSERT_TRUE(status == 0 || status == 4)
          << status << ": 3 is a wrong byte, 128 and more a signal";
      missed += status == 4;
    }
    const int status = stop(*first);
    ASSERT_TRUE(status == 0 || ended_by_itself(status))
        << "it ended with " << status << ", 128 and more is a signal";
    ended += ended_by_itself(status);
    const bool reached = take_mark();
    ASSERT_TRUE(reached || status == 0);
    std::unique_ptr<ChildProcess> second = larderd(-1);
    ASSERT_TRUE(listens(*second)) << "the leftovers keep the next larderd from starting";
    ASSERT_EQ(engine(-1), 0) << "3 is a wrong byte, 4: no chunk could be stored and loaded";
    ASSERT_EQ(stop(*second), 0);
    free_memory();
    if (HasFailure() || !reached) break;
  }
  std::printf(
      "%s%s: %ld calls of larderd failed one by one; it ended by itself %ld times, %ld times the "
      "engine had no cache\n",
      GetParam().kind, GetParam().disk ? " over a disk" : "", (n + step - 1) / step, ended, missed);
  EXPECT_GT(n, 0);
}

TEST_P(NthCall, FailureInEngineCostsAMissOnly) {
  std::unique_ptr<ChildProcess> sidecar = larderd(-1);
  ASSERT_TRUE(listens(*sidecar));
  long n = first(), missed = 0;
  const int step = stride(std::max(1, GetParam().small_stride / 4));
  for (;; n += step) {
    const int status = engine(n);
    ASSERT_TRUE(status == 0 || status == 4)
        << GetParam().kind << " " << n << " ended with " << status
        << ": 3 is a wrong byte, 128 and more a signal, -1 it hangs";
    missed += status == 4;
    if (!take_mark()) break;
  }
  std::printf("%s%s: %ld calls of an engine failed one by one, %ld times it had no cache\n",
              GetParam().kind, GetParam().disk ? " over a disk" : "", (n + step - 1) / step,
              missed);
  ASSERT_EQ(engine(-1), 0);
  ASSERT_EQ(stop(*sidecar), 0);
  free_memory();
}

INSTANTIATE_TEST_SUITE_P(Fails, NthCall,
                         testing::Values(Case{"malloc", 61}, Case{"mmap", 1}, Case{"open", 3},
                                         Case{"read", 3}, Case{"write", 3},
                                         Case{"malloc", 211, true, 5}, Case{"mmap", 7, true},
                                         Case{"open", 11, true}, Case{"read", 7, true},
                                         Case{"write", 9, true}),
                         [](const auto& which) {
                           return std::string(which.param.kind) + (which.param.disk ? "_disk" : "");
                         });

}  // namespace
}  // namespace larder::crash
