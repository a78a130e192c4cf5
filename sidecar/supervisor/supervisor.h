// Supervisor: runs larderd, runs it again whenever it ends or hangs, and stays, so that the container it is in stays.
//
// Kubernetes ties an engine to its sidecar's container: one that does not come up keeps the engine from starting, and one that is
// down or not ready takes the whole pod out of its Service. Nothing that the cache does may do that; so what Kubernetes sees is
// this, and larderd's troubles stay in here (docs/reference/failures.md). Belongs to one thread.
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
  unsigned start_grace_ms = 20'000;  // for which an engine's start waits for a larderd that does not become ready
  unsigned look_ms = 50;             // between looks whether it is ready
  unsigned ask_ms = 10'000;          // between questions to one that was
  unsigned unanswered = 6;           // questions in a row after which it hangs
  unsigned least_pause_ms = 200;     // before it is run again; doubled each time
  unsigned most_pause_ms = 10'000;
  unsigned steady_ms = 60'000;  // one that was ready for so long is run again after the least pause
  unsigned stop_ms = 300'000;   // for it to stop; then it is killed. The kubelet kills both after the pod's grace period
};

class Supervisor {
 public:
  // Whether larderd is ready: OK, or why not. kDeadlineExceeded: it took the question and did not answer.
  using Ask = std::function<Status()>;

  // `command`: what to run. `signals`: a signalfd of SIGTERM, SIGINT and SIGHUP. All of it outlives the supervisor.
  Supervisor(std::vector<std::string> command, Ask ask, const Fd& signals, const base::Clock& clock,
             const SupervisorTimes& times = {});

  const ProbePages& state() const { return state_; }

  // Until SIGTERM or SIGINT, which the program is told: then its exit status.
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
  std::uint64_t ready_since_ms_ = 0;  // 0: this run was not ready yet
  unsigned unanswered_ = 0;
  unsigned pause_ms_;
};

}  // namespace larder::supervisor
