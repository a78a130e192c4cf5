// The supervisor over small programs of the shell, with times of its own: real processes, no real
// larderd (tests/component has one).
#include "sidecar/supervisor/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

namespace larder::supervisor {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr SupervisorTimes kFast{.start_grace_ms = 60'000,
                                .look_ms = 5,
                                .ask_ms = 10,
                                .unanswered = 3,
                                .least_pause_ms = 1,
                                .most_pause_ms = 10,
                                .steady_ms = 60'000,
                                .stop_ms = 5'000};

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() {
    std::string pattern = (fs::temp_directory_path() / "larder-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);  // before any thread
    signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~SupervisorTest() override { fs::remove_all(folder_); }

  // Runs the shell's `script`; ends by SIGTERM as soon as `enough` is true.
  int keep(const std::string& script, Supervisor::Ask ask,
           const std::function<bool(Supervisor&)>& enough, const SupervisorTimes& times = kFast) {
    const std::vector<std::string> command{
        "/bin/sh", "-c", "echo x >> " + (folder_ / "runs").string() + "; " + script};
    Supervisor supervisor(command, std::move(ask), signals_, clock_, times);
    return run(supervisor, enough);
  }
  static int run(Supervisor& supervisor, const std::function<bool(Supervisor&)>& enough) {
    const std::jthread watching([&](std::stop_token stop) {
      while (!stop.stop_requested() && !enough(supervisor)) ::usleep(2000);
      ::kill(::getpid(), SIGTERM);
    });
    return supervisor.run();
  }
  std::size_t runs() const {
    std::ifstream file(folder_ / "runs");
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }
  static std::string page(Supervisor& supervisor, const std::string& path) {
    return supervisor.state().answer("GET " + path + " HTTP/1.1\r\n\r\n");
  }
  static Status not_there() { return {Code::kUnavailable, "nobody answers"}; }

  const base::MonotonicClock clock_;
  fs::path folder_;
  Fd signals_;
};

// covers F-210, F-213
TEST_F(SupervisorTest, EndedProgramIsRestartedAndItsLastLineKept) {
  std::string why;
  const int status =
      keep("echo memory.size is wrong >&2; exit 2", not_there, [&](Supervisor& supervisor) {
        if (runs() < 5) return false;
        why = page(supervisor, "/readyz");  // of the runs before this one
        return true;
      });
  // No program ran, or the program ended by itself or by the forwarded SIGTERM: if one was just
  // running either may be first.
  EXPECT_THAT(status, AnyOf(0, 2, 128 + SIGTERM));
  EXPECT_THAT(why, HasSubstr("larderd ended with exit status 2: memory.size is wrong"));
}

// A child of the program that lives on holds its standard error open.
TEST_F(SupervisorTest, OrphanedChildDoesNotDelayTheRestart) {
  const auto began = clock_.now_ms();
  keep("sleep 60 & echo $! >> " + (folder_ / "left").string() + "; exit 1", not_there,
       [&](Supervisor&) { return runs() >= 2; });
  EXPECT_LT(clock_.now_ms() - began, 50'000U);
  std::ifstream all(folder_ / "left");
  for (pid_t left = 0; all >> left;) ::kill(left, SIGKILL);  // else ctest waits for their output
}

TEST_F(SupervisorTest, FatalSignalIsReported) {
  std::string why;
  keep("kill -SEGV $$", not_there, [&](Supervisor& supervisor) {
    if (runs() < 3) return false;
    why = page(supervisor, "/readyz");  // of the runs before this one
    return true;
  });
  EXPECT_THAT(why, HasSubstr("larderd was ended by SIGSEGV"));
}

TEST_F(SupervisorTest, MissingProgramKeepsTheSupervisorRunning) {
  Supervisor supervisor({"/nonexistent/larderd"}, not_there, signals_, clock_, kFast);
  std::string why;
  const int status = run(supervisor, [&](Supervisor& running) {
    why = page(running, "/readyz");
    return why.find("cannot run") != std::string::npos;
  });
  EXPECT_THAT(status, AnyOf(0, 127, 128 + SIGTERM))
      << "its own, where it was just tried again, or was stopped before it could be";
  EXPECT_THAT(why, HasSubstr("/nonexistent/larderd"));
}

TEST_F(SupervisorTest, ReadyProgramRunsUntilItsStopSignal) {
  const std::string up = (folder_ / "up").string();
  const int status = keep(
      "trap 'exit 7' TERM; echo up > " + up + "; while :; do sleep 0.01; done",
      [] { return Status(); },
      [&](Supervisor& supervisor) {
        return fs::exists(up) && page(supervisor, "/readyz").find("200") != std::string::npos;
      });
  EXPECT_EQ(status, 7);
  EXPECT_EQ(runs(), 1U);
}

// Once larderd was ready: a starting larderd may be reading a large disk.
// covers F-211
TEST_F(SupervisorTest, HungProgramIsKilledAndRestarted) {
  std::atomic<int> asked = 0;
  const auto ask = [&asked] {
    return ++asked == 1 ? Status() : Status(Code::kDeadlineExceeded, "took it and gave no answer");
  };
  keep("exec sleep 600", ask, [&](Supervisor&) { return runs() >= 2; });
  EXPECT_GE(runs(), 2U);
}

// covers F-212
TEST_F(SupervisorTest, StartingProgramIsNotKilled) {
  std::atomic<int> asked = 0;
  const auto ask = [&asked] {
    ++asked;
    return Status(Code::kDeadlineExceeded, "takes its time");
  };
  keep("exec sleep 600", ask, [&](Supervisor&) { return asked >= 20; });
  EXPECT_EQ(runs(), 1U);
}

TEST_F(SupervisorTest, SigtermBetweenTwoRunsEndsItAtOnce) {
  SupervisorTimes slow = kFast;
  slow.least_pause_ms = slow.most_pause_ms = 600'000;
  const auto ended = [](Supervisor& supervisor) {
    return page(supervisor, "/readyz").find("exit status 1") != std::string::npos;
  };
  EXPECT_EQ(keep("exit 1", not_there, ended, slow), 0);
}

TEST_F(SupervisorTest, SighupIsForwarded) {
  const std::string heard = (folder_ / "heard").string();
  bool sent = false;
  keep(
      "trap 'echo x > " + heard + "' HUP; trap 'exit 0' TERM; echo up > " + heard +
          ".up; while :; do sleep 0.01; done",
      [] { return Status(); },
      [&](Supervisor&) {
        if (!sent && fs::exists(heard + ".up")) sent = ::kill(::getpid(), SIGHUP) == 0;
        return fs::exists(heard);
      });
  EXPECT_TRUE(fs::exists(heard));
}

}  // namespace
}  // namespace larder::supervisor
