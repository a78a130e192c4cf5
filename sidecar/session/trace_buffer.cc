#include "sidecar/session/trace_buffer.h"

#include <algorithm>

namespace larder::session {

void TraceBuffer::add(stats::AskedRequest request) {
  const std::lock_guard lock(mutex_);
  // One more for each request: requests without chunks need memory too.
  chunks_ += request.chunks.size() + 1;
  requests_.push_back(std::move(request));
  // The oldest requests leave first. `first_` counts them, so a slow reader sees how many requests
  // it missed.
  while (chunks_ > kMaxChunks) {
    chunks_ -= requests_.front().chunks.size() + 1;
    requests_.pop_front();
    ++first_;
  }
}

stats::TracePage TraceBuffer::page(std::optional<std::uint64_t> from, std::uint64_t now_ms) {
  const std::lock_guard lock(mutex_);
  if (!wanted(now_ms)) {  // the kept requests belong to an earlier recording
    first_ += requests_.size();
    requests_.clear();
    chunks_ = 0;
  }
  // Each page prolongs the recording. A client that goes away stops the recording without a
  // message.
  wanted_until_ms_.store(now_ms + kWantedMs, std::memory_order_relaxed);
  const std::uint64_t end = first_ + requests_.size();
  // A number from before a restart of larderd may lie beyond the end: the page then begins at the
  // end.
  const std::uint64_t asked = std::min(from.value_or(end), end), begin = std::max(asked, first_);
  stats::TracePage page{now_ms, begin, begin - asked, {}};
  std::size_t chunks = 0;
  // At least one request a page, however long, so that the reader makes progress.
  for (; page.next != end && (page.requests.empty() || chunks < kMaxPageChunks); ++page.next) {
    page.requests.push_back(requests_[page.next - first_]);
    chunks += page.requests.back().chunks.size();
  }
  return page;
}

}  // namespace larder::session
