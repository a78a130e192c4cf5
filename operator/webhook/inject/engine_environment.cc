#include "operator/webhook/inject/engine_environment.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "operator/webhook/inject/flag_sources.h"
#include "operator/webhook/inject/moving_memory.h"
#include "operator/webhook/inject/script_engines.h"
#include "operator/webhook/inject/script_setters.h"
#include "operator/webhook/inject/shell_expansion.h"
#include "operator/webhook/inject/starters.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr const char* kPathVariable = "PYTHONPATH";
constexpr const char* kEarlier = "LARDER_ENGINE_PYTHONPATH";  // the value of valueFrom
// KServe's images 0.17 to 0.20, for GPUs and for CPUs. A missing folder does no harm.
constexpr const char* kImagesPath = ":/kserve-workspace/huggingfaceserver:/huggingfaceserver";
constexpr const char* kSocket = "LARDER_SOCKET";
constexpr const char* kPool = "LARDER_POOL";

std::string extended_path() {
  return std::string(kPathVariable) + "=\"" + std::string(kPythonPath) +
         "${PYTHONPATH:+:$PYTHONPATH}\"";
}

// Two entries of one name are legal, and the last one counts.
Object* find_variable(Object& environment, std::string_view name) {
  Object* found = nullptr;  // the last variable of a name counts
  for (Object& variable : environment)
    if (api::text_at(variable, "name") == name) found = &variable;
  return found;
}

std::string lost_by(const std::string& what) {
  return "`" + what +
         "` in front of vLLM removes the variables or the group that Larder gives the container; "
         "start vLLM without `" +
         what + "`";
}

// valueFrom and value exclude each other in Kubernetes.
bool has_value_from(const Object& variable) {
  return !api::at(variable, "valueFrom").is_null();
}

void add_variable(Object& environment, std::string_view name, const std::string& value) {
  environment.push_back(Object{{"name", name}, {"value", value}});
}

void prefix_python_path(Object& container) {
  const bool kserves = is_huggingface_server(container);
  Object& environment = container["env"];
  const std::string ours(kPythonPath), images = kserves ? kImagesPath : "";
  Object* variable = find_variable(environment, kPathVariable);
  if (variable == nullptr) {
    // Kubernetes keeps an undefined $(NAME), which then is a missing folder.
    const Object& from = api::at(container, "envFrom");
    return add_variable(environment, kPathVariable,
                        from.is_array() && !from.empty()
                            ? ours + ":$(" + kPathVariable + ")" + images
                            : ours + images);
  }
  if (!has_value_from(*variable)) {
    // An empty entry of PYTHONPATH means the current folder, so an empty value gets no colon.
    const std::string value = api::text_at(*variable, "value");
    (*variable)["value"] = value.empty() ? ours : ours + ":" + value;
    return;
  }
  // A value of valueFrom cannot be extended in place: the variable gets another name, and the new
  // PYTHONPATH refers to it by $(NAME). Kubernetes needs the referred variable earlier in the list.
  (*variable)["name"] = kEarlier;
  const std::ptrdiff_t at = variable - &environment[0];
  environment.insert(environment.begin() + at + 1,
                     Object{{"name", kPathVariable}, {"value", ours + ":$(" + kEarlier + ")"}});
}

// Whether a variable's new value contains the old PYTHONPATH, directly or through other variables.
// `seen` bounds the walk: variables may refer to each other in circles.
bool keeps_path(const ScriptEngines& script, const Assignment& one, std::set<std::string>& seen) {
  for (const ScriptWord& word : one.words)
    for (const std::string& written : word.expansions) {
      const Expansion expansion = expansion_of(written);
      const std::string& name = expansion.name;
      // ${PYTHONPATH#*:} cuts the value, and ${PYTHONPATH:+/x} replaces the value by its text.
      const std::string& rest = expansion.rest;
      if (!rest.empty() && std::string_view(":-+=?").find(rest[0]) == std::string_view::npos)
        continue;
      if ((rest.starts_with('+') || rest.starts_with(":+")) &&
          rest.find(kPathVariable) == rest.npos)
        continue;
      if (name == kPathVariable) return true;
      if (name.empty() || seen.size() >= kMostInside || !seen.insert(name).second) continue;
      for (const Assignment& other : script.assignments())
        if (other.name == name && keeps_path(script, other, seen)) return true;
    }
  return false;
}

// The names in a word that `unset` reads: the word, or the words of the loop around it, as in
// `for v in A B; do unset $v; done`. Empty: only a run of the script shows them.
std::optional<std::vector<std::string>> names_in(const ScriptEngines& script,
                                                 const ScriptWord& word) {
  if (word.text) return std::vector<std::string>{*word.text};
  const Expansion one = word.expansions.size() == 1 && word.known.empty()
                            ? expansion_of(word.expansions[0])
                            : Expansion{};
  if (one.kind != Expansion::Kind::kVariable || !one.rest.empty()) return std::nullopt;
  for (const Assignment& other : script.assignments())
    if (other.name == one.name) return std::nullopt;
  std::vector<std::string> names;
  for (const ScriptEngines::Command& loop : script.commands()) {
    if (loop.words.size() < 4 || loop.words[0].text != "for" || loop.words[1].text != one.name)
      continue;
    for (std::size_t at = 3; at < loop.words.size(); ++at) {
      if (!loop.words[at].text) return std::nullopt;
      names.push_back(*loop.words[at].text);
    }
  }
  return names.empty() ? std::nullopt : std::optional(names);
}

// `unset PYTHONPATH`, `export -n PYTHONPATH`, `declare +x PYTHONPATH`, and `unset $NAMES`, where
// the names are not known.
bool unsets_path(const ScriptEngines& script, const ScriptEngines::Command& command) {
  const std::size_t head = head_place(command.words);
  const std::string name = command.words[head].text.value_or("");
  bool removes = name == "unset";
  const bool declares = name == "declare" || name == "typeset" || name == "local";
  for (std::size_t at = head + 1; at < command.words.size(); ++at) {
    const std::string word = command.words[at].text.value_or("");
    if (word.empty() || (word[0] != '-' && word[0] != '+')) continue;
    if (name == "unset" && word == "-f") return false;  // functions only
    removes = removes || (name == "export" && word[0] == '-' && word.find('n') != word.npos) ||
              (declares && word[0] == '+' && word.find('x') != word.npos);
  }
  if (!removes) return false;
  return std::ranges::any_of(
      std::span(command.words).subspan(head + 1), [&script](const ScriptWord& word) {
        const auto names = names_in(script, word);
        return !names ||
               std::ranges::count(*names, kPathVariable) + std::ranges::count(*names, kSocket) > 0;
      });
}

std::string unknown_in_front(const std::string& array) {
  return "a program in front of ${" + array +
         "[@]} is not known to keep the container's files and variables; start vLLM without the "
         "program";
}

// Why a variable in front of an array, `$PREFIX "${NAME[@]}"`, may lose the package: each value
// that the script gives it must be a known program, or empty.
std::string lost_by_prefix(const ScriptEngines& script, const ScriptWord& prefix,
                           const std::string& array) {
  for (const std::string& written : prefix.expansions) {
    const std::string name = expansion_of(written).name;
    bool assigned = false;
    for (const Assignment& one : script.assignments()) {
      if (one.name != name) continue;
      assigned = true;
      if (one.value.empty() && one.words.empty()) continue;
      const CommandHead head = head_with_engine_at(one.words, one.words.size());
      if (!head.lost.empty()) return lost_by(head.lost);
      if (head.kind != CommandHead::Kind::kEngine) return unknown_in_front(array);
    }
    if (!assigned) return unknown_in_front(array);
  }
  return "";
}

// More variables in front of one command are no script that people write.
constexpr std::size_t kMostPrefixes = 16;
// The same of arrays with engines: each costs a walk over the script.
constexpr std::size_t kMostArrays = 64;

// Why words that run the array of an engine at `at`, `exec "${NAME[@]}"`, would lose the package.
std::string lost_by_words(const ScriptEngines& script, const std::vector<ScriptWord>& words,
                          std::size_t at, const std::string& array) {
  CommandHead head = head_with_engine_at(words, at);
  if (!head.lost.empty()) return lost_by(head.lost);
  if (head.kind == CommandHead::Kind::kEngine) return "";
  // `exec $PREFIX "${NAME[@]}"`: the words without the variables, then each variable.
  std::vector<ScriptWord> shown, open;
  for (std::size_t word = 0; word < at; ++word)
    (words[word].text || !words[word].begins.empty() ? shown : open).push_back(words[word]);
  head = head_with_engine_at(shown, shown.size());
  if (!head.lost.empty()) return lost_by(head.lost);
  if (head.kind != CommandHead::Kind::kEngine)
    return is_starter(shown[head_place(shown)].known) ? unknown_in_front(array) : "";
  if (open.size() > kMostPrefixes) return unknown_in_front(array);
  for (const ScriptWord& prefix : open)
    if (std::string why = lost_by_prefix(script, prefix, array); !why.empty()) return why;
  return "";
}

// Why the commands that run the array of an engine would lose the package, also through other
// arrays and functions: ALL=(env -i "${NAME[@]}").
std::string lost_by_use(const ScriptEngines& script, const std::string& array) {
  if (array.empty()) return "";
  const std::set<std::string> carriers = carriers_of(script, array);
  const auto lost = [&](const std::vector<ScriptWord>& words) -> std::string {
    // Behind the first word with the array, further ones are arguments.
    const auto first = std::ranges::find_if(
        words, [&](const ScriptWord& word) { return carries(word, carriers); });
    return first == words.end()
               ? ""
               : lost_by_words(script, words, static_cast<std::size_t>(first - words.begin()),
                               array);
  };
  for (const ScriptEngines::Command& command : script.commands())
    if (std::string why = lost(command.words); !why.empty()) return why;
  for (const Assignment& one : script.assignments())
    if (std::string why = one.array ? lost(one.words) : ""; !why.empty()) return why;
  return "";
}

// Why engines of a script would lack Larder's package, and the remedy; "": they have the package.
// `PYTHONPATH=/app:$PYTHONPATH` keeps Larder's folder; `PYTHONPATH=/app` loses it, and vLLM would
// not start with the connector's flag.
std::string lost_in(const ScriptEngines& script) {
  for (const Assignment& one : script.assignments()) {
    std::set<std::string> seen;
    if (one.name == kSocket)
      return "the script sets LARDER_SOCKET, which the pool sets; remove the assignment";
    if (one.name == kPathVariable && !one.adds && !keeps_path(script, one, seen))
      return "the script replaces PYTHONPATH; write PYTHONPATH=FOLDER:$PYTHONPATH to keep the "
             "present value";
  }
  if (std::ranges::any_of(script.commands(), [&script](const ScriptEngines::Command& command) {
        return unsets_path(script, command);
      }))
    return "the script removes PYTHONPATH or LARDER_SOCKET, or variables that the injector cannot "
           "read; leave both variables unchanged, and write the names of others behind `unset`";
  std::size_t arrays = 0;
  for (std::size_t engine = 0; engine < script.count(); ++engine) {
    if (!script.lost(engine).empty()) return lost_by(script.lost(engine));
    if (!script.array(engine).empty() && ++arrays > kMostArrays)
      return "the script has more than " + std::to_string(kMostArrays) +
             " arrays with engines; start each engine by a container of its own";
    if (std::string why = lost_by_use(script, script.array(engine)); !why.empty()) return why;
  }
  return "";
}

// A command whose effect on PYTHONPATH the script does not show: `. FILE`, `read PYTHONPATH`.
std::string sets_path_unseen(const ScriptEngines::Command& command) {
  if (std::string what = sets_any(command); !what.empty()) return what;
  const std::string name = command.words[head_place(command.words)].text.value_or("");
  const bool declares = name == "declare" || name == "typeset" || name == "local";
  const bool loops = name == "for" || name == "select";
  const bool bare = std::ranges::any_of(
      command.words, [](const ScriptWord& word) { return word.text == kPathVariable; });
  if (std::ranges::count(read_by(command), kPathVariable) > 0 || ((declares || loops) && bare))
    return "`" + name + " " + kPathVariable + "`";
  return "";
}

std::string unseen_in(const ScriptEngines& script) {
  for (const ScriptEngines::Command& command : script.commands())
    if (std::string what = sets_path_unseen(command); !what.empty()) return what;
  return "";
}

// Puts Larder's folder into the variable of each engine alone, behind all that the script does.
Status extend_at_engines(std::string& text, const ScriptEngines& script, const std::string& what) {
  const Status refused(Code::kUnsupported,
                       what +
                           " may replace PYTHONPATH, by which vLLM finds Larder's package; set "
                           "PYTHONPATH in env instead, and start vLLM by a written-out `vllm "
                           "serve`");
  if (script.count() == 0) return refused;
  std::vector<ScriptEdit> edits;
  for (std::size_t engine = 0; engine < script.count(); ++engine) {
    const bool has_own = std::ranges::any_of(script.assignments(), [&](const Assignment& one) {
      return one.name == kPathVariable && one.command == script.command(engine);
    });
    if (has_own || !script.array(engine).empty()) return refused;
    edits.push_back(script.put_in_front(engine, "env " + extended_path()));
  }
  text = edited(std::move(text), std::move(edits));
  return {};
}

Status export_python_path(Object& container, std::size_t script) {
  const Object& command = api::at(container, "command");
  const std::size_t commands = command.is_array() ? command.size() : 0;
  Object& member =
      script < commands ? container["command"][script] : container["args"][script - commands];
  std::string text = member.get<std::string>();
  const auto read = ScriptEngines::find(text);
  if (read.ok()) {
    if (std::string why = lost_in(*read); !why.empty()) return {Code::kUnsupported, std::move(why)};
    if (const std::string what = unseen_in(*read); !what.empty()) {
      if (Status status = extend_at_engines(text, *read, what); !status.ok()) return status;
      member = text;
      return {};
    }
  }
  member = "export " + extended_path() + "\n" + text;
  return {};
}

}  // namespace

// Another LARDER_SOCKET would attach the engine to a foreign larderd.
Status set_environment(Object& container, const CommandShape& shape, const std::string& socket,
                       const std::string& pool) {
  if (std::string why = moving_memory(container, shape.script); !why.empty())
    return {Code::kUnsupported, std::move(why)};
  Object& environment = container["env"];
  if (!environment.is_array()) environment = Object::array();
  // A second injection finds its own value here, and changes nothing.
  const Object* earlier = find_variable(environment, kSocket);
  if (earlier != nullptr && api::text_at(*earlier, "value") != socket)
    return {Code::kUnsupported,
            "the container sets LARDER_SOCKET, which the pool sets; remove the variable"};
  if (find_variable(environment, kEarlier) != nullptr)
    return {Code::kUnsupported,
            "the container has a variable LARDER_ENGINE_PYTHONPATH, a name of Larder's own; rename "
            "the variable"};
  if (!shape.lost.empty()) return {Code::kUnsupported, lost_by(shape.lost)};
  if (shape.script != CommandShape::kNoScript) {
    if (Status status = export_python_path(container, shape.script); !status.ok()) return status;
  } else {
    prefix_python_path(container);
  }
  if (earlier == nullptr) add_variable(container["env"], kSocket, socket);
  if (find_variable(container["env"], kPool) == nullptr)
    add_variable(container["env"], kPool, pool);
  return {};
}

}  // namespace larder::webhook
