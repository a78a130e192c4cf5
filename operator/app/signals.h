// Signals: SIGINT and SIGTERM, received by await(). Blocks the two signals in every thread that
// starts later, and ignores SIGPIPE.
#pragma once

#include <optional>
#include <stop_token>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::app {

class Signals {
 public:
  // REQUIRES: the process has started no thread.
  static Result<Signals> take();

  // Waits for a signal and returns it. Empty: `stop` was requested.
  std::optional<int> await(const std::stop_token& stop) const;

 private:
  explicit Signals(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace larder::app
