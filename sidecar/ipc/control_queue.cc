#include "sidecar/ipc/control_queue.h"

#include <chrono>
#include <condition_variable>
#include <optional>
#include <utility>

namespace larder::ipc {
namespace {
constexpr std::size_t kMaxWaiting = 64;
}

// Guarded by the queue's mutex, but for `command`, which belongs to whoever took the call off the queue.
struct ControlQueue::Call {
  Command command;
  bool begun = false;
  bool abandoned = false;
  std::optional<Result<std::uint64_t>> answer;
  std::condition_variable answered;
};

Result<std::uint64_t> ControlQueue::call(Command command, std::uint32_t deadline_ms) {
  const auto call = std::make_shared<Call>();
  call->command = std::move(command);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Status(Code::kUnavailable, "larderd is stopping");
    if (waiting_.size() >= kMaxWaiting) return Status(Code::kResourceExhausted, "too many admin commands wait: try again later");
    waiting_.push_back(call);
  }
  wake_();
  std::unique_lock lock(mutex_);
  call->answered.wait_for(lock, std::chrono::milliseconds(deadline_ms), [&] { return call->answer.has_value(); });
  if (call->answer) return *std::move(call->answer);
  call->abandoned = true;
  return Status(Code::kDeadlineExceeded, std::string("larderd's loop did not ") + (call->begun ? "finish" : "begin") +
                                             " it within " + std::to_string(deadline_ms) + " ms");
}

void ControlQueue::run_all() {
  std::vector<std::shared_ptr<Call>> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(waiting_);
  }
  for (const auto& call : taken) {
    {
      const std::lock_guard lock(mutex_);
      if (call->abandoned) continue;
      call->begun = true;
    }
    answer(*call, call->command());
  }
}

void ControlQueue::answer(Call& call, Result<std::uint64_t> result) {
  const std::lock_guard lock(mutex_);
  call.answer = std::move(result);
  call.answered.notify_one();
}

void ControlQueue::close() {
  std::vector<std::shared_ptr<Call>> taken;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    taken.swap(waiting_);
  }
  for (const auto& call : taken) answer(*call, Status(Code::kUnavailable, "larderd is stopping"));
}

}  // namespace larder::ipc
