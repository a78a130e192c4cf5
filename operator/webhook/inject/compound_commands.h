// Whether a script runs a command whenever it gets there, or only perhaps: what compound commands
// and operators are around it.
//
// Thread-compatible; never throws.
#pragma once

#include <string>
#include <string_view>

namespace larder::webhook {

class CompoundCommands {
 public:
  // `word` stands where a command begins: `if`, `done`, `{` and the like open or close a compound
  // one.
  void take_word(std::string_view word);
  // One of ; & | ( ), or && and ||: `twice`.
  void take_operator(char c, bool twice);
  // The command that is being read is joined to another one, as by a pipe.
  void join() { joined_ = true; }
  // A newline behind a command.
  void end_line() { joined_ = false; }

  // Of the command that is being read: no compound command is around it, and no &&, || or | in
  // front.
  bool is_certain() const { return open_.empty() && !joined_; }

 private:
  std::string open_;  // i(f), l(oop), c(ase), { and (
  bool joined_ = false;
};

}  // namespace larder::webhook
