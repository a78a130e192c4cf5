// The commands of a shell script, the engines among them, also through eval and bash -c, and edits
// at those.
//
// Pure; thread-compatible; never throws.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/webhook/inject/engine_flags.h"
#include "operator/webhook/inject/shell_text.h"
#include "shim/base/status.h"

namespace larder::webhook {

inline constexpr int kMostReadings = 4;        // of one another's text: a script that evals what ...
inline constexpr std::size_t kMostTexts = 64;  // that one script hands on to a second reading

// What replaces the bytes [begin, end) of the script.
struct ScriptEdit {
  std::size_t begin = 0, end = 0;
  std::string text;
};

// A word as the script's variables decide it.
struct ScriptWord {
  std::optional<std::string> text;      // nothing where an expansion decides
  std::string known;                    // its characters, expansions left out
  std::string begins;                   // those before the first expansion
  std::vector<std::string> expansions;  // as they are written: "$X", "${X:-1}", "$(date)"
  bool many = false;
};

// NAME=VALUE, NAME+=VALUE, NAME[0]=VALUE and NAME=(VALUES), in front of a command, alone, or behind
// `export` and the like.
struct Assignment {
  std::string name;
  std::string value;              // what an expansion decides is missing; between an array's elements are blanks
  std::vector<ScriptWord> words;  // an array's elements; another value as it is split at its blanks
  std::size_t command = 0;        // where in commands()
  bool array = false;
  bool adds = false;      // +=, or one element
  bool replaces = false;  // no adding, and always run: whatever was there before is gone
};

class ScriptEngines {
 public:
  struct Command {
    std::vector<ScriptWord> words;
    bool certain = true;  // ShellCommand::certain
    bool function = false;
    bool evaluated = false;  // the text of an eval
  };

  // kInvalidArgument, kOutOfRange as read_shell().
  static Result<ScriptEngines> find(std::string_view script);

  std::size_t count() const { return engines_.size(); }
  // Of one engine: the words after `vllm serve` or `python3 -m MODULE`.
  std::vector<FlagWord> flags(std::size_t engine) const;
  std::vector<ScriptWord> words(std::size_t engine) const;
  // Where its command is in commands().
  std::size_t command(std::size_t engine) const { return engines_[engine].place; }
  // Whether the first of its words is a model, as behind `vllm serve`.
  bool takes_model(std::size_t engine) const { return engines_[engine].takes_model; }
  // NAME where the engine stands in an array, NAME=(vllm serve m), that is run elsewhere; else "".
  const std::string& array(std::size_t engine) const { return engines_[engine].array; }
  // What in front of it takes its environment or its groups away, as `env -i`; else "".
  const std::string& lost(std::size_t engine) const { return engines_[engine].lost; }
  // Of the whole script, in their order.
  const std::vector<Command>& commands() const { return commands_; }
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
    bool evaluated = false;
    std::string lost;
  };
  struct Engine {
    std::size_t text = 0, place = 0;
    std::vector<ShellWord> command;
    std::size_t first_flag = 0;
    bool takes_model = true;
    std::string array, lost;
  };
  struct Span {
    std::size_t first = 0, last = 0;
  };

  Status read(std::size_t text, int depth);
  Status read_command(std::size_t text, const ShellCommand& command, int depth);
  Status read_words(std::size_t text, const std::vector<ShellWord>& words, const std::string& array, int depth);
  Status read_again(Text text, const std::vector<ShellWord>& words, Span span, int depth);
  void take_assignment(std::size_t text, const ShellWord& word, bool certain);
  ScriptWord script_word(std::size_t text, const ShellWord& word) const;
  std::string source_of(std::size_t text, std::size_t begin, std::size_t end) const;

  std::vector<Text> texts_;
  std::vector<Engine> engines_;
  std::vector<Command> commands_;
  std::vector<Assignment> assignments_;
};

// All of them at once; none overlaps another.
std::string edited(std::string script, std::vector<ScriptEdit> edits);

}  // namespace larder::webhook
