// Signals: SIGINT and SIGTERM as something to wait for, blocked in every thread from its making on; SIGPIPE is ignored.
#pragma once

#include <optional>
#include <stop_token>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::app {

class Signals {
 public:
  // Before any thread is started.
  static Result<Signals> take();

  // The signal that came, waiting for it; nothing: `stop` was asked for.
  std::optional<int> await(const std::stop_token& stop) const;

 private:
  explicit Signals(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace larder::app
