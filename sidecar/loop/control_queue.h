// ControlQueue: carries admin commands from other threads to the loop, and the answers back. Each
// command has a deadline, and the number of waiting commands is bounded.
//
// call() is thread-safe; the loop owns everything else.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "shim/base/status.h"

namespace larder::loop {

class ControlQueue {
 public:
  // Runs one slice of a command. Empty: more slices follow.
  using Command = std::function<std::optional<Result<std::uint64_t>>()>;

  // `wake` wakes the loop; call() calls it from the thread of the caller.
  explicit ControlQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Runs the command on the loop and returns its answer. kDeadlineExceeded: the command did not
  // begin in time and never will, or it began and goes on without the caller. kResourceExhausted:
  // too many commands wait. kUnavailable: the loop has ended.
  Result<std::uint64_t> call(Command command, std::uint32_t deadline_ms);

  // Runs one slice of the first waiting command. False if no command waits.
  bool go_on();
  // Answers waiting and future commands with kUnavailable.
  void close();

 private:
  struct Call;

  std::function<void()> wake_;
  std::mutex mutex_;
  bool closed_ = false;
  // Shared: the caller may time out before the loop runs the command.
  std::deque<std::shared_ptr<Call>> waiting_;
};

}  // namespace larder::loop
