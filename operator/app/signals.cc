#include "operator/app/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace larder::app {

Result<Signals> Signals::take() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  Fd fd(::signalfd(-1, &signals, SFD_CLOEXEC));
  if (!fd.valid()) return Status::from_errno(errno, "signalfd");
  return Signals(std::move(fd));
}

std::optional<int> Signals::await(const Fd& wake) const {
  pollfd polled[] = {{fd_.get(), POLLIN, 0}, {wake.get(), POLLIN, 0}};
  while (::poll(polled, 2, -1) < 0 && errno == EINTR) {
  }
  signalfd_siginfo signal{};
  if ((polled[0].revents & POLLIN) != 0 && ::read(fd_.get(), &signal, sizeof(signal)) == sizeof(signal))
    return static_cast<int>(signal.ssi_signo);
  eventfd_t count = 0;
  ::eventfd_read(wake.get(), &count);
  return std::nullopt;
}

}  // namespace larder::app
