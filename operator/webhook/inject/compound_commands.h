// Whether a script certainly runs a command, from the compound commands and operators around the
// command.
//
// Thread-compatible; never throws.
#pragma once

#include <string>
#include <string_view>

namespace larder::webhook {

class CompoundCommands {
 public:
  // A `word` at the start of a command. `if`, `done`, `{` and the like open or close a compound
  // command.
  void take_word(std::string_view word);
  // One of ; & | ( ). `twice`: && or ||.
  void take_operator(char c, bool twice);
  // Joins the current command to another one, as a pipe does.
  void join() { joined_ = true; }
  // A newline after a command.
  void end_line() { joined_ = false; }

  // Whether the current command has no compound command around it and no &&, || or | in front.
  bool is_certain() const { return open_.empty() && !joined_; }

 private:
  std::string open_;  // i(f), l(oop), c(ase), { and (
  bool joined_ = false;
};

}  // namespace larder::webhook
