#include "sidecar/memory/prefaulter.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "sidecar/base/log.h"
#include "sidecar/base/sizes.h"

namespace larder::memory {
namespace {

constexpr std::size_t kSpanBytes = 16U
                                   << 20;  // takes some milliseconds; a page of 1 GiB takes 0.3 s
constexpr std::size_t kPageBytes = 4096;

int touch(std::span<std::byte> span) {
  // Makes pages present without changing a byte, and reports a lack of memory as an error. A plain
  // store would be a SIGBUS.
  if (::madvise(span.data(), span.size(), MADV_POPULATE_WRITE) == 0) return 0;
  if (errno != EINVAL) return errno;
  // Kernels before 5.14: an atomic OR with 0 touches each page and keeps its bytes. An engine may
  // be writing there, into a slot that an earlier larderd granted.
  for (std::size_t at = 0; at < span.size(); at += kPageBytes)
    reinterpret_cast<std::atomic<std::uint64_t>*>(&span[at])->fetch_or(0,
                                                                       std::memory_order_relaxed);
  return 0;
}

}  // namespace

unsigned Prefaulter::thread_count() {
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
}

Prefaulter::Prefaulter(std::span<std::byte> memory, std::size_t page_bytes, std::uint64_t present)
    : memory_(memory),
      span_bytes_(std::max(kSpanBytes, page_bytes)),
      finished_((memory.size() + span_bytes_ - 1) / span_bytes_) {
  // Pages of the previous instance are present already: after a warm start the first slots can be
  // granted at once.
  first_unfinished_ = present >= memory.size() ? finished_.size() : present / span_bytes_;
  std::fill_n(finished_.begin(), first_unfinished_, true);
  next_ = first_unfinished_;
  touched_ = reported_ = std::min<std::uint64_t>(present, memory.size());
  const auto threads = std::min<std::size_t>(thread_count(), finished_.size() - first_unfinished_);
  for (std::size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
}

// Stops all threads before the first join; else each thread would run until the one before is
// joined.
Prefaulter::~Prefaulter() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void Prefaulter::run(const std::stop_token& stop) {
  while (!stop.stop_requested() && problem() == 0) {
    // The threads take spans in order, so the finished prefix grows steadily and grants can follow.
    const std::size_t span = next_.fetch_add(1);
    if (span >= finished_.size()) return;
    const std::size_t at = span * span_bytes_;
    const std::span<std::byte> bytes =
        memory_.subspan(at, std::min(span_bytes_, memory_.size() - at));
    int error = touch(bytes);
    while ((error == EINTR || error == EAGAIN) && !stop.stop_requested()) error = touch(bytes);
    if (error == 0)
      finish(span);
    else
      give_up(error);
  }
}

void Prefaulter::finish(std::size_t span) {
  const std::lock_guard lock(mutex_);
  finished_[span] = true;
  // Only the prefix counts: store grants slots below one mark, and spans may finish out of order.
  while (first_unfinished_ < finished_.size() && finished_[first_unfinished_]) ++first_unfinished_;
  const std::uint64_t total = memory_.size();
  const std::uint64_t touched =
      std::max(std::min<std::uint64_t>(first_unfinished_ * span_bytes_, total), touched_.load());
  touched_.store(touched, std::memory_order_release);
  // About ten lines for a start, and fewer for a small arena.
  const std::uint64_t report_every = std::max<std::uint64_t>(total / 10, 256U << 20);
  if (touched == reported_ || (touched - reported_ < report_every && touched != total)) return;
  reported_ = touched;
  base::log_info("arena: " + base::mib(touched) + " of " + base::mib(total) + " touched");
}

void Prefaulter::give_up(int error) {
  int none = 0;
  // All threads meet the same lack of memory, and one line is enough.
  if (!problem_.compare_exchange_strong(none, error)) return;
  base::log_error(
      "touching the arena stopped at " + base::mib(touched_bytes()) + " of " +
      base::mib(memory_.size()) + ": " + std::generic_category().message(error) +
      "; only touched memory is used. Raise the memory or hugetlb limit, or lower memory.size");
}

}  // namespace larder::memory
