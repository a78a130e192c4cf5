// A thread stopped between the question for permission and the send: the guard stands in between,
// even then.
#include "operator/k8s/write_guard.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>

#include "shim/base/fd.h"
#include "sidecar/base/clock.h"

namespace larder::k8s {
namespace {

class TimedFence final : public Fence {
 public:
  explicit TimedFence(std::uint64_t for_ms) : until_ms_(clock_.now_ms() + for_ms) {}
  std::uint64_t left_ms() const override {
    return until_ms_ > clock_.now_ms() ? until_ms_ - clock_.now_ms() : 0;
  }

 private:
  const base::BoottimeClock clock_;
  const std::uint64_t until_ms_;
};

struct Pair {
  Pair() {
    int both[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0) std::abort();
    ours = Fd(both[0]);
    theirs = Fd(both[1]);
  }
  Fd ours, theirs;
};

// Whether the other end is shut, within 20 s. Asks again and again: the thread sanitizer holds
// signals back while a call waits.
bool ends(const Fd& socket) {
  for (int i = 0; i < 2'000; ++i) {
    char byte = 0;
    if (::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(WriteGuardTest, SocketsAreShutWhenTheFenceFalls) {
  Pair pair;
  GuardedSockets sockets;
  sockets.add(pair.ours.get());
  const TimedFence fence(50);
  const WriteGuard guard(fence, sockets);
  EXPECT_FALSE(guard.down());
  EXPECT_TRUE(ends(pair.theirs)) << "its end comes by itself";
  EXPECT_LT(::send(pair.ours.get(), "x", 1, MSG_NOSIGNAL), 0);
  EXPECT_TRUE(guard.down());
}

TEST(WriteGuardTest, WithoutGuardSocketsStayOpen) {
  Pair pair;
  GuardedSockets sockets;
  sockets.add(pair.ours.get());
  {
    const TimedFence fence(30);
    const WriteGuard guard(fence, sockets);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(::send(pair.ours.get(), "x", 1, MSG_NOSIGNAL), 1);
  sockets.remove(pair.ours.get());
  sockets.shut_down();
  EXPECT_EQ(::send(pair.ours.get(), "x", 1, MSG_NOSIGNAL), 1);
}

// The thread is stopped in just the moment between (by itself: no luck is needed), and sends
// without another question.
void ask_stop_send(const Fd& socket, bool guarded) {
  GuardedSockets sockets;
  sockets.add(socket.get());
  const TimedFence fence(300);
  std::optional<WriteGuard> guard;
  if (guarded) guard.emplace(fence, sockets);
  if (fence.left_ms() == 0) return;
  ::raise(SIGSTOP);
  std::ignore = ::send(socket.get(), "x", 1, MSG_NOSIGNAL);
}

TEST(WriteGuardTest, ProcessStoppedAfterTheFenceCheckSendsNothing) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer holds signals back until after the send";
#endif
  for (const bool guarded : {false, true}) {
    Pair pair;
    const pid_t child = ::fork();
    if (child == 0) {
      std::thread(ask_stop_send, std::cref(pair.ours), guarded)
          .join();  // a child inherits no timers: a thread of its own makes its own
      ::_exit(0);
    }
    pair.ours.reset();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::kill(child, SIGCONT);
    ::waitpid(child, &status, 0);
    char byte = 0;
    EXPECT_EQ(::recv(pair.theirs.get(), &byte, 1, 0), guarded ? 0 : 1) << "guarded " << guarded;
  }
}

TEST(WriteGuardTest, EachThreadHasItsOwnGuard) {
  Pair first, second;
  GuardedSockets of_first, of_second;
  of_first.add(first.ours.get());
  of_second.add(second.ours.get());
  const TimedFence soon(30), late(60'000);
  const WriteGuard guard(late, of_first);
  std::jthread([&] {
    const WriteGuard other(soon, of_second);
    EXPECT_TRUE(ends(second.theirs));
  }).join();
  EXPECT_FALSE(guard.down());
  EXPECT_EQ(::send(first.ours.get(), "x", 1, MSG_NOSIGNAL), 1);
}

}  // namespace
}  // namespace larder::k8s
