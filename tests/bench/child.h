// Child: a child process of a benchmark, killed on destruction and at the parent's death. And
// larderd as such a child.
//
// REQUIRES: made before this process has threads that the child would need. Thread-compatible.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "sidecar/base/log.h"
#include "sidecar/loop/sidecar.h"

namespace larder::bench {

class Child {
 public:
  explicit Child(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    ::_exit(0);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const { ::kill(pid_, number); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  const pid_t pid_;
};

// Starts cold: a killed run may have left its memory, with pieces of another size under the same
// fingerprint.
inline void run_sidecar(const config::Config& config) {
  base::set_log_level(base::LogLevel::kError);
  const base::MonotonicClock clock;
  if (const Status freed = loop::Sidecar::free_memory(config); !freed.ok())
    std::fprintf(stderr, "larderd: %s\n", freed.to_string().c_str());
  Result<std::unique_ptr<loop::Sidecar>> sidecar = loop::Sidecar::start(config, clock);
  const Status status = sidecar.ok() ? (*sidecar)->run() : sidecar.status();
  std::fprintf(stderr, "larderd: %s\n", status.to_string().c_str());
}

}  // namespace larder::bench
