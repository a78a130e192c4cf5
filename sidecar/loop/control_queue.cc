#include "sidecar/loop/control_queue.h"

#include <chrono>
#include <condition_variable>
#include <optional>
#include <utility>

namespace larder::loop {
namespace {
// HTTP has a thread for each of two endpoints, so few commands wait. The bound is for callers that
// give up and come again.
constexpr std::size_t kMaxWaiting = 64;
}  // namespace

// Guarded by the mutex of the queue, except for `command`, which the loop owns.
struct ControlQueue::Call {
  Command command;
  bool begun = false;
  std::optional<Result<std::uint64_t>> answer;
  std::condition_variable answered;
};

Result<std::uint64_t> ControlQueue::call(Command command, std::uint32_t deadline_ms) {
  // Shared with the loop: a caller that gives up returns while the loop may still run the command.
  const auto call = std::make_shared<Call>();
  call->command = std::move(command);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Status(Code::kUnavailable, "larderd is stopping");
    if (waiting_.size() >= kMaxWaiting)
      return Status(Code::kResourceExhausted, "too many admin commands wait: try again later");
    waiting_.push_back(call);
  }
  // Outside of the lock: the loop wakes at once and takes the same lock.
  wake_();
  std::unique_lock lock(mutex_);
  call->answered.wait_for(lock, std::chrono::milliseconds(deadline_ms),
                          [&] { return call->answer.has_value(); });
  if (call->answer) return *std::move(call->answer);
  // A command that has begun goes on: a half-done drop would leave chunks that the user wanted
  // gone. Another one never begins, so a retry does not do the work twice, and its place is free.
  if (!call->begun) std::erase(waiting_, call);
  return Status(Code::kDeadlineExceeded, std::string("larderd's loop did not ") +
                                             (call->begun ? "finish" : "begin") + " it within " +
                                             std::to_string(deadline_ms) + " ms");
}

bool ControlQueue::go_on() {
  std::shared_ptr<Call> call;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return false;
    call = waiting_.front();
    call->begun = true;
  }
  // Without the lock: a slice may take a millisecond, and callers must be able to queue and to give
  // up meanwhile.
  std::optional<Result<std::uint64_t>> answer = call->command();
  if (!answer) return true;
  const std::lock_guard lock(mutex_);
  waiting_.pop_front();
  call->answer = std::move(answer);
  call->answered.notify_one();
  return true;
}

void ControlQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& call : waiting_) {
    call->answer = Status(Code::kUnavailable, "larderd is stopping");
    call->answered.notify_one();
  }
  waiting_.clear();
}

}  // namespace larder::loop
