// The commands of a shell script and the engines among them, also through eval and bash -c, and
// edits of the engines.
//
// Pure; thread-compatible; never throws.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/webhook/inject/command_head.h"
#include "operator/webhook/inject/engine_flags.h"
#include "operator/webhook/inject/shell_text.h"
#include "shim/base/status.h"

namespace larder::webhook {

inline constexpr int kMostReadings = 4;        // nesting of texts that a script evals
inline constexpr std::size_t kMostTexts = 64;  // texts of one script with a second reading

// The replacement of the bytes [begin, end) of the script.
struct ScriptEdit {
  std::size_t begin = 0, end = 0;
  std::string text;
};

// A word of the script.
struct ScriptWord {
  std::optional<std::string> text;      // empty if an expansion decides
  std::string known;                    // characters without expansions
  std::string begins;                   // characters before the first expansion
  std::vector<std::string> expansions;  // as written: "$X", "${X:-1}", "$(date)"
  bool many = false;
};

// NAME=VALUE, NAME+=VALUE, NAME[0]=VALUE and NAME=(VALUES), in front of a command, alone, or after
// `export` and the like.
struct Assignment {
  std::string name;
  std::string value;              // without expansions; blanks between elements of an array
  std::vector<ScriptWord> words;  // elements of an array, or the value split at blanks
  std::size_t command = 0;        // index in commands()
  bool array = false;
  bool adds = false;      // +=, or one element
  bool replaces = false;  // certainly runs and does not add: earlier values are gone
};

class ScriptEngines {
 public:
  struct Command {
    std::vector<ScriptWord> words;
    bool certain = true;  // ShellCommand::certain
    bool function = false;
    bool evaluated = false;  // the command is in the text of an eval
  };

  // Errors of read_shell(): kInvalidArgument, kOutOfRange.
  static Result<ScriptEngines> find(std::string_view script);

  std::size_t count() const { return engines_.size(); }
  // The words of an engine after `vllm serve` or `python3 -m MODULE`.
  std::vector<FlagWord> flags(std::size_t engine) const;
  std::vector<ScriptWord> words(std::size_t engine) const;
  // The index of an engine's command in commands().
  std::size_t command(std::size_t engine) const { return engines_[engine].place; }
  // Whether the first word of an engine is a model, as after `vllm serve`.
  bool takes_model(std::size_t engine) const { return engines_[engine].takes_model; }
  // NAME for an engine in an array, NAME=(vllm serve m), that another command runs; otherwise "".
  const std::string& array(std::size_t engine) const { return engines_[engine].array; }
  // The program in front of an engine that removes variables or groups, such as `env -i`; or "".
  const std::string& lost(std::size_t engine) const { return engines_[engine].lost; }
  // All assignments and commands of the script, in order.
  const std::vector<Command>& commands() const { return commands_; }
  const std::vector<Assignment>& assignments() const { return assignments_; }
  // Whether a second reading sees the engine. Values of variables then count as shell text too.
  bool read_twice(std::size_t engine) const { return engines_[engine].text != 0; }

  // Inserts `words`, a flag and its value, before a word of flags(); flags().size(): at the end.
  ScriptEdit put(std::size_t engine, std::size_t before,
                 const std::vector<std::string>& words) const;
  // Inserts `words` in front of the engine's program, behind `exec`, `env` and the like. A shell
  // reads the words as often as the program.
  ScriptEdit put_in_front(std::size_t engine, const std::string& words) const;
  // Replaces a word. kUnsupported: the word is partly inside and partly outside of quotes.
  Result<ScriptEdit> replace(std::size_t engine, std::size_t word, const std::string& value) const;

 private:
  struct Text {
    ShellText cells;
    std::size_t parent = 0;  // text with the original words; its own index: the script
    bool evaluated = false;
    std::string lost;
  };
  struct Engine {
    std::size_t text = 0, place = 0;
    std::vector<ShellWord> command;
    std::size_t program = 0, first_flag = 0;
    bool takes_model = true;
    std::string array, lost;
  };
  struct Span {
    std::size_t first = 0, last = 0;
  };

  Status read(std::size_t text, int depth);
  Status read_command(std::size_t text, const ShellCommand& command, int depth);
  Status read_words(std::size_t text, const std::vector<ShellWord>& words, const std::string& array,
                    int depth);
  Status read_again(Text text, const std::vector<ShellWord>& words, Span span, int depth);
  void take_assignment(std::size_t text, const ShellWord& word, bool certain);
  ScriptWord script_word(std::size_t text, const ShellWord& word) const;
  ScriptEdit put_at(const Engine& engine, std::size_t word, std::string text) const;
  std::string source_of(std::size_t text, std::size_t begin, std::size_t end) const;

  std::vector<Text> texts_;
  std::vector<Engine> engines_;
  std::vector<Command> commands_;
  std::vector<Assignment> assignments_;
};

// How a command would start a `vllm serve` in the place of its word `at`: `exec "$@"`.
CommandHead head_with_engine_at(const std::vector<ScriptWord>& words, std::size_t at);

// Applies all edits at once. REQUIRES: no two edits overlap.
std::string edited(std::string script, std::vector<ScriptEdit> edits);

}  // namespace larder::webhook
