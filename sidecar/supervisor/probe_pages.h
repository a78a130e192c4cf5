// ProbePages: the state of the supervised larderd, and the answers to the probes of Kubernetes.
// Thread-safe.
//
//   /startupz   200 once larderd was ready, or once the grace of a start is over: then the engine
//               starts without its cache
//   /healthz    200 while the supervisor runs: an end of larderd must not restart the container
//   /readyz     200 while larderd serves engines, else 503 and the reason
//   /v1/supervisor  {"ready", "why", "starts", "out_of_memory"}: for the operator
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "sidecar/base/clock.h"

namespace larder::supervisor {

class ProbePages {
 public:
  // `clock` outlives this object; the grace begins now.
  ProbePages(const base::Clock& clock, unsigned start_grace_ms);

  void started();
  void ready();
  void down(const std::string& why, bool out_of_memory = false);

  // A whole HTTP answer to a whole request.
  std::string answer(const std::string& request) const;

 private:
  std::string started_page() const;

  const base::Clock& clock_;
  const std::uint64_t grace_ends_ms_;
  const unsigned grace_ms_;
  mutable std::mutex mutex_;
  bool ready_ = false, was_ready_ = false, out_of_memory_ = false;
  std::string why_ = "larderd is starting";
  std::uint64_t starts_ = 0;
};

}  // namespace larder::supervisor
