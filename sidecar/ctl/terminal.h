// Terminal: draws the screens of `larderctl top`, over the last screen on a terminal, one after the
// other on other outputs. Every end except SIGKILL leaves the terminal as before.
//
// Handles SIGINT, SIGTERM and SIGTSTP while drawing on a terminal, so a process has one Terminal at
// a time. Thread-compatible.
#pragma once

#include <string>

namespace larder::ctl {

class Terminal {
 public:
  // `whole`: draw each screen over the last one. Ignored if standard output is no terminal.
  explicit Terminal(bool whole);
  ~Terminal();
  Terminal(const Terminal&) = delete;

  // `screen` consists of whole lines. A terminal shows the lines and columns that fit.
  void show(const std::string& screen);

 private:
  const bool whole_;
  bool first_ = true;
};

}  // namespace larder::ctl
