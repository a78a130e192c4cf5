#include "sidecar/net/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace larder::net {

Status Poller::open() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  wake_fd_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_fd_.valid()) return Status::from_errno(errno, "epoll or eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_fd_.get(), &event) != 0)
    return Status::from_errno(errno, "epoll_ctl");
  return {};
}

Status Poller::watch(int fd, std::uint32_t events, bool anew, bool& ready) const {
  epoll_event event{};
  // Level-triggered: a thread that leaves bytes unread hears of them again.
  event.events = events;
  event.data.ptr = &ready;
  if (::epoll_ctl(epoll_.get(), anew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) != 0)
    return Status::from_errno(errno, "epoll_ctl");
  return {};
}

void Poller::forget(int fd) const {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Poller::wait(std::uint64_t timeout_ns) {
  // Rounded up: rounded down, a wait of less than a millisecond would spin until its time.
  const std::uint64_t timeout_ms =
      std::min<std::uint64_t>((timeout_ns + 999'999) / 1'000'000, 60'000);
  std::array<epoll_event, 64> events;  // the next call reports the others
  const int got = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               static_cast<int>(timeout_ms));
  for (int i = 0; i < got; ++i) {
    void* const ready = events[static_cast<std::size_t>(i)].data.ptr;
    // The wake-up has no flag: only the descriptor must be emptied.
    if (ready != nullptr) {
      *static_cast<bool*>(ready) = true;
      continue;
    }
    std::uint64_t count = 0;
    [[maybe_unused]] const auto taken = ::read(wake_fd_.get(), &count, sizeof(count));
  }
}

void Poller::wake() const {
  // A full eventfd fails the write, and is readable anyway.
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_.get(), &one, sizeof(one));
}

}  // namespace larder::net
