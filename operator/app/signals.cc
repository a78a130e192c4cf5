#include "operator/app/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "sidecar/base/stop_fd.h"

namespace larder::app {
namespace {

constexpr int kLongestPollMs = 1000;  // finds the stop if StopFd got no descriptor

}  // namespace

// A signalfd and no handler: the signal becomes an event that a thread can wait for, together with
// a stop.
Result<Signals> Signals::take() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A write to a closed connection gives EPIPE; SIGPIPE would end the operator.
  std::signal(SIGPIPE, SIG_IGN);
  Fd fd(::signalfd(-1, &signals, SFD_CLOEXEC));
  if (!fd.valid()) return Status::from_errno(errno, "signalfd");
  return Signals(std::move(fd));
}

std::optional<int> Signals::await(const std::stop_token& stop) const {
  const base::StopFd stopped(stop);
  signalfd_siginfo signal{};
  while (!stop.stop_requested()) {
    pollfd polled[] = {{fd_.get(), POLLIN, 0}, {stopped.get(), POLLIN, 0}};
    ::poll(polled, 2, kLongestPollMs);
    if ((polled[0].revents & POLLIN) != 0 &&
        ::read(fd_.get(), &signal, sizeof(signal)) == sizeof(signal))
      return static_cast<int>(signal.ssi_signo);
  }
  return std::nullopt;
}

}  // namespace larder::app
