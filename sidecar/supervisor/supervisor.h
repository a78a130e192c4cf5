// Supervisor: runs larderd, and runs larderd again after an end or a hang. The supervisor keeps
// running, so that its container stays up.
//
// Kubernetes ties an engine to the container of the sidecar: a container that does not start keeps
// the engine from starting, and a container that is down or not ready takes the pod out of its
// Service. A failure of the cache must not stop the engine. Kubernetes therefore probes the
// supervisor and does not see failures of larderd (docs/reference/failures.md). Owned by one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "shim/base/status.h"
#include "sidecar/base/clock.h"
#include "sidecar/supervisor/child_process.h"
#include "sidecar/supervisor/probe_pages.h"

namespace larder::supervisor {

struct SupervisorTimes {
  unsigned start_grace_ms = 20'000;  // an engine's start waits this long for larderd to be ready
  unsigned look_ms = 50;             // between questions until larderd is ready
  unsigned ask_ms = 10'000;          // between questions after larderd was ready
  unsigned unanswered = 6;           // so many unanswered questions in a row mean a hang
  unsigned least_pause_ms = 200;     // before the next run; doubled each time
  unsigned most_pause_ms = 10'000;
  unsigned steady_ms = 60'000;  // a run that was ready for so long resets the pause
  // Deadline of a stop, then SIGKILL. The kubelet kills both after the grace period of the pod.
  unsigned stop_ms = 300'000;
};

class Supervisor {
 public:
  // Whether larderd is ready: OK, or the reason why not. kDeadlineExceeded: larderd took the
  // question and did not answer.
  using Ask = std::function<Status()>;

  // `command`: the program and its arguments. `signals`: a signalfd of SIGTERM, SIGINT and SIGHUP.
  // `signals` and `clock` outlive the supervisor.
  Supervisor(std::vector<std::string> command, Ask ask, const Fd& signals, const base::Clock& clock,
             const SupervisorTimes& times = {});

  const ProbePages& state() const { return state_; }

  // Runs until SIGTERM or SIGINT, and sends SIGTERM to larderd. Returns the exit status of larderd.
  int run();

 private:
  enum class Next { kGoOn, kRunAgain, kStop };

  bool run_once();
  Next watch();
  Next look();
  Next wait(unsigned ms);
  void note_end(int raw, std::uint64_t memory_kills_before);
  int stop();
  bool pause();

  const std::vector<std::string> command_;
  const Ask ask_;
  const Fd& signals_;
  const base::Clock& clock_;
  const SupervisorTimes times_;
  ProbePages state_;
  std::unique_ptr<ChildProcess> program_;
  std::uint64_t ready_since_ms_ = 0;  // 0 before this run was ready
  unsigned unanswered_ = 0;
  unsigned pause_ms_;
};

}  // namespace larder::supervisor
