// Shutdown: hears SIGTERM and SIGINT, whatever all others are busy with, and asks them to stop; where that takes too long it ends the
// process in the middle of what it does, with status 0: the next leader goes on.
//
// A thread of its own. Made first and destroyed last, so that the time it gives is that of the whole end.
#pragma once

#include <chrono>
#include <stop_token>
#include <thread>

#include "operator/app/signals.h"

namespace larder::app {

class Shutdown {
 public:
  static constexpr std::chrono::milliseconds kMostToEnd{
      4'000};  // an API server that is silent keeps the lease's release for as long

  // `signals` and `all` outlive it.
  Shutdown(const Signals& signals, std::stop_source& all, std::chrono::milliseconds most_to_end = kMostToEnd);

 private:
  std::jthread thread_;
};

}  // namespace larder::app
