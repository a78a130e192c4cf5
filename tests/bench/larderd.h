// Larderd: the program as a child process of a benchmark, with its memory. Thread-compatible.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "sidecar/config/config.h"

namespace larder::bench {

inline std::uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  std::uint64_t kib = 0;
  while (file >> name >> kib >> unit)
    if (name == "MemAvailable:") return kib << 10;
  return 0;
}

// A larderd in a process of its own. Beyond the configuration: the log has errors only, and there
// is no HTTP on TCP.
class Larderd {
 public:
  Larderd(const std::string& program, const config::Config& config) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("LARDER_SOCKET", config.socket.c_str(), 1);
    ::setenv("LARDER_LOG_LEVEL", "error", 1);
    ::setenv("LARDER_HTTP_LISTEN", "", 1);
    ::setenv("LARDER_MEMORY_SIZE", (std::to_string(config.memory.size_bytes >> 20) + "MiB").c_str(),
             1);
    ::setenv("LARDER_MEMORY_SHM_NAME", config.memory.shm_name.c_str(), 1);
    ::setenv("LARDER_MEMORY_DIRECTORY", config.memory.directory.c_str(), 1);
    ::setenv("LARDER_MEMORY_KEEP_ON_EXIT", config.memory.keep_on_exit ? "true" : "false", 1);
    ::setenv("LARDER_MEMORY_HUGEPAGES",
             config.memory.hugepages == config::Hugepages::k2Mi ? "2Mi" : "none", 1);
    ::setenv("LARDER_MEMORY_HUGEPAGE_DIRECTORY", config.memory.hugepage_directory.c_str(), 1);
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }
  // After the return the memory is free, unless the configuration keeps it.
  ~Larderd() { end(SIGTERM); }
  // Returns when the process has ended.
  void end(int signal) {
    if (!ended_) ::kill(pid_, signal);
    if (!ended_) ::waitpid(pid_, nullptr, 0);
    ended_ = true;
  }
  Larderd(const Larderd&) = delete;
  Larderd& operator=(const Larderd&) = delete;

  bool lives() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  const pid_t pid_;
  bool ended_ = false;
};

}  // namespace larder::bench
