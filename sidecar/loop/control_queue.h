// ControlQueue: carries admin commands from other threads to the loop and their answers back, with a deadline and a bound.
//
// call() is thread-safe; all else belongs to the loop.
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
  // One slice of a command; nothing: there are more.
  using Command = std::function<std::optional<Result<std::uint64_t>>()>;

  // `wake` makes the loop turn; called with each command, from the caller's thread.
  explicit ControlQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Runs the command on the loop and returns its answer. kDeadlineExceeded: it was not begun in time and will not be, or it was and
  // goes on. kResourceExhausted: too many wait. kUnavailable: the loop has ended.
  Result<std::uint64_t> call(Command command, std::uint32_t deadline_ms);

  // One slice of the first command that waits. False: there is none.
  bool go_on();
  // Answers everything, now and later, with kUnavailable.
  void close();

 private:
  struct Call;

  std::function<void()> wake_;
  std::mutex mutex_;
  bool closed_ = false;
  std::deque<std::shared_ptr<Call>> waiting_;  // shared: the caller may leave before the loop comes
};

}  // namespace larder::loop
