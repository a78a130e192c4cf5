#include "sidecar/tiers/disk/pool_queue.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace larder::disk {
namespace {

constexpr int kThreads = 4;  // more threads only slow the slowest request

int transfer(const IoRequest& request) {
  std::size_t moved = 0;
  while (moved < request.bytes()) {
    std::array<iovec, 2> vector{};
    int count = 0;
    // A short transfer continues at the byte behind, which may lie in the first or in the second
    // part.
    std::size_t skip = moved;
    for (const std::span<std::byte> part : request.parts) {
      const std::size_t gone = std::min(skip, part.size());
      skip -= gone;
      if (gone < part.size()) vector[count++] = {part.data() + gone, part.size() - gone};
    }
    const auto offset = static_cast<off_t>(request.offset + moved);
    const ssize_t got = request.kind == IoRequest::Kind::kRead
                            ? ::preadv(request.fd, vector.data(), count, offset)
                            : ::pwritev(request.fd, vector.data(), count, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    // The end of the file: somebody truncated it. An endless loop would follow otherwise.
    if (got == 0) return EIO;
    moved += static_cast<std::size_t>(got);
  }
  return 0;
}

int perform(const IoRequest& request) {
  if (request.kind != IoRequest::Kind::kSync) return transfer(request);
  // fdatasync also writes the metadata that a later read needs. Time stamps are not needed.
  return ::fdatasync(request.fd) == 0 ? 0 : errno;
}

class PoolQueue final : public IoQueue {
 public:
  PoolQueue() {
    for (int i = 0; i < kThreads; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  void submit(const IoRequest& request) override {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    work_.notify_one();
  }
  void wait(std::uint64_t timeout_ns, std::vector<IoResult>& results) override {
    std::unique_lock lock(mutex_);
    // `woken_` keeps a wake() that comes before the wait, as the eventfd of io_uring does.
    done_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                   [this] { return woken_ || !results_.empty(); });
    woken_ = false;
    results.insert(results.end(), results_.begin(), results_.end());
    results_.clear();
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    done_.notify_one();
  }
  const char* name() const override { return "threads"; }

 private:
  // Ends after a stop, once no request is left.
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (work_.wait(lock, stop, [this] { return !requests_.empty(); })) {
      const IoRequest request = requests_.front();
      requests_.pop_front();
      // The system call runs without the mutex, so submit() and wake() never wait for the device.
      lock.unlock();
      const IoResult result{request.tag, perform(request)};
      lock.lock();
      results_.push_back(result);
      done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable done_;
  std::deque<IoRequest> requests_;
  std::vector<IoResult> results_;
  bool woken_ = false;
  std::vector<std::jthread> threads_;  // last: the threads end before the members that they use
};

}  // namespace

std::unique_ptr<IoQueue> make_pool_queue() {
  return std::make_unique<PoolQueue>();
}

}  // namespace larder::disk
