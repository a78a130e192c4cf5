// Where `larderctl top` draws: a terminal, whole and left as it was found, or anything else, screen after screen.
//
// At most one at a time: it takes SIGINT, SIGTERM and SIGTSTP while it draws on a terminal. Thread-compatible.
#pragma once

#include <string>

namespace larder::ctl {

class Terminal {
 public:
  // `whole`: draw each screen over the last one. False where standard output is no terminal.
  explicit Terminal(bool whole);
  ~Terminal();
  Terminal(const Terminal&) = delete;

  // A screen is whole lines. On a terminal they are cut to what it can show.
  void show(const std::string& screen);

 private:
  const bool whole_;
  bool first_ = true;
};

}  // namespace larder::ctl
