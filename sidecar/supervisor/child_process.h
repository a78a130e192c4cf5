// ChildProcess: one run of a program as a child of this process, its standard error passed on and
// its last line remembered.
//
// The child dies with the thread that called start(), and never outlives this object. Owned by one
// thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::supervisor {

// The last line of an output that arrives in pieces. Bounded; thread-compatible.
class LastLine {
 public:
  static constexpr std::size_t kMostBytes = 400;

  void take(std::string_view piece);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool ended_ = false;  // the next piece begins another line
};

class ChildProcess {
 public:
  // Runs `command`, whose first word is a path, with no signal blocked.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void signal(int number) const;
  // Readable once the child has ended.
  const Fd& ended() const { return ended_; }
  // Waits for the end of the child. Returns the raw status of waitpid().
  int wait();
  // The last line that the child wrote. REQUIRES: wait() has returned.
  std::string last_words();

 private:
  ChildProcess(pid_t pid, Fd ended, Fd output);

  const pid_t pid_;
  const Fd ended_;
  std::optional<int> status_;
  LastLine last_;
  std::jthread passing_on_;  // writes last_ until the thread ends
};

}  // namespace larder::supervisor
