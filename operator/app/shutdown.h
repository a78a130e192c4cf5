// Shutdown: waits for SIGTERM or SIGINT and asks all threads to stop. A shutdown that takes longer
// than `most_to_end` ends the process with status 0; the next leader continues the work. So the
// process ends within 5 s whatever its threads do.
//
// Has one thread. Construct it first and destroy it last, so that its time limit covers the whole
// shutdown.
#pragma once

#include <chrono>
#include <stop_token>
#include <thread>

#include "operator/app/signals.h"

namespace larder::app {

class Shutdown {
 public:
  static constexpr std::chrono::milliseconds kMostToEnd{
      4'000};  // an API server that does not answer delays the release of the lease so long

  // `signals` and `all` outlive the object.
  Shutdown(const Signals& signals, std::stop_source& all,
           std::chrono::milliseconds most_to_end = kMostToEnd);

 private:
  std::jthread thread_;
};

}  // namespace larder::app
