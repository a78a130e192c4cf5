// A real larderd of the build tree with files of its own, and any other child process. Ended by
// SIGKILL in the destructor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/eventually.h"

namespace larder::test {

class ChildProcess {
 public:
  explicit ChildProcess(const std::vector<std::string>& command);
  // A fork of this process that runs `work` and ends with its result. REQUIRES: no other thread in
  // this process.
  explicit ChildProcess(const std::function<int()>& work);
  ChildProcess(const ChildProcess&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits for the end, at most timeout_ms. The exit status, 128 + signal, or -1 for a running
  // process.
  int wait(int timeout_ms);
  bool running() { return wait(0) == -1; }
  // SIGKILL. Returns the status like wait(), which differs if the process had ended before.
  int kill();

 private:
  void note(int raw);

  pid_t pid_;
  int status_ = -1;
};

class LarderdProcess {
 public:
  // `size` as in the configuration file, `more` further lines of the file. Returns when larderd is
  // ready; fails the test otherwise.
  explicit LarderdProcess(const std::string& size, const std::string& log_level = "warning",
                          const std::string& program = LARDERD_PATH, const std::string& more = "");
  ~LarderdProcess();

  const std::string& socket() const { return socket_; }
  // Larderd's files in /dev/shm begin with this name and a dot.
  const std::string& name() const { return name_; }
  ChildProcess& process() { return *process_; }
  // SIGKILL, or another signal that ends larderd, and a new larderd with the same files. `between`:
  // runs without a larderd.
  void kill_and_restart(int signal = 9, const std::function<void()>& between = nullptr);
  // As a start of the whole machine does.
  void lose_memory() const;
  // A number, or the length of a list, from `larderctl status --json` by the path of keys, a number
  // for a place in a list; -1: larderd does not answer.
  std::int64_t status_number(const std::vector<std::string>& path) const;
  // A text in the same way; empty when larderd does not answer, too.
  std::string status_text(const std::vector<std::string>& path) const;

  // Any value; null: no value, or larderd does not answer.
  nlohmann::json status_at(const std::vector<std::string>& path) const;

 private:
  void start();

  const std::string program_;
  std::string folder_, name_, socket_, admin_socket_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace larder::test
