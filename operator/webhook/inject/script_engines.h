// The engines that a shell script starts, also through eval and bash -c, and edits at them.
//
// Pure; thread-compatible; never throws.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/webhook/inject/engine_flags.h"
#include "operator/webhook/inject/shell_text.h"
#include "shim/protocol/status.h"

namespace larder::webhook {

inline constexpr int kMostReadings = 4;        // of one another's text: a script that evals what ...
inline constexpr std::size_t kMostTexts = 64;  // that one script hands on to a second reading

// What replaces the bytes [begin, end) of the script.
struct ScriptEdit {
  std::size_t begin = 0, end = 0;
  std::string text;
};

// NAME=VALUE, in front of a command, alone, or behind `export` and the like. What an expansion decides is missing in its value.
struct Assignment {
  std::string name, value;
};

class ScriptEngines {
 public:
  // kInvalidArgument, kOutOfRange as read_shell().
  static Result<ScriptEngines> find(std::string_view script);

  std::size_t count() const { return engines_.size(); }
  // Of one engine: the words after `vllm serve`.
  std::vector<FlagWord> flags(std::size_t engine) const;
  // Of the whole script, in their order.
  const std::vector<Assignment>& assignments() const { return assignments_; }
  // Whether a second reading sees it: then what stands in a variable is read as shell text too.
  bool read_twice(std::size_t engine) const { return engines_[engine].text != 0; }

  // Puts `words`, a flag and its value, before that word of flags(); flags().size(): at the end.
  ScriptEdit put(std::size_t engine, std::size_t before, const std::vector<std::string>& words) const;
  // In the place of that word. kUnsupported where it stands inside and outside of quotes at once.
  Result<ScriptEdit> replace(std::size_t engine, std::size_t word, const std::string& value) const;

 private:
  struct Text {
    ShellText cells;
    std::size_t parent = 0;  // whose words it came from; itself: the script
  };
  struct Engine {
    std::size_t text = 0;
    ShellCommand command;
    std::size_t first_flag = 0;
  };

  Status read(std::size_t text, int depth);
  Status read_again(std::size_t from, const ShellCommand& command, std::size_t first, std::size_t last, int depth);

  std::vector<Text> texts_;
  std::vector<Engine> engines_;
  std::vector<Assignment> assignments_;
};

// All of them at once; none overlaps another.
std::string edited(std::string script, std::vector<ScriptEdit> edits);

}  // namespace larder::webhook
