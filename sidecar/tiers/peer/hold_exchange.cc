#include "sidecar/tiers/peer/hold_exchange.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <utility>

namespace larder::peer {

Status HoldExchange::open() {
  request_fd_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return request_fd_.valid() ? Status() : Status::from_errno(errno, "eventfd");
}

void HoldExchange::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

// A failed write means that the eventfd is readable already.
void HoldExchange::tell() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(request_fd_.get(), &one, sizeof(one));
}

bool HoldExchange::ask(HoldRequest request) {
  const std::lock_guard lock(mutex_);
  // The store takes requests once a turn of its loop. Without a bound, questions of many peers pile
  // up here while the loop is busy.
  if (open_ >= kMostOpen) return false;
  ++open_;
  waiting_.requests.push_back(std::move(request));
  tell();
  return true;
}

// Never refused: a chunk that stayed held here would keep its slot from eviction for good.
void HoldExchange::give_back(std::vector<HeldChunk> chunks) {
  if (chunks.empty()) return;
  const std::lock_guard lock(mutex_);
  waiting_.given_back.insert(waiting_.given_back.end(), chunks.begin(), chunks.end());
  tell();
}

std::vector<HoldReply> HoldExchange::take_replies() {
  const std::lock_guard lock(mutex_);
  return std::exchange(replies_, {});
}

HoldExchange::Waiting HoldExchange::take_requests() {
  const std::lock_guard lock(mutex_);
  // Read before the exchange and under the mutex: a later ask() makes the descriptor readable
  // again, so no request waits without a wake-up.
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(request_fd_.get(), &count, sizeof(count));
  return std::exchange(waiting_, {});
}

void HoldExchange::answer(HoldReply reply) {
  const std::lock_guard lock(mutex_);
  --open_;
  replies_.push_back(std::move(reply));
  if (wake_) wake_();
}

}  // namespace larder::peer
