#include "operator/webhook/inject/hidden_flags.h"

#include <algorithm>

#include "operator/webhook/inject/command_shape.h"
#include "operator/webhook/inject/connector_config.h"
#include "operator/webhook/inject/engine_flags.h"
#include "operator/webhook/inject/flag_sources.h"
#include "operator/webhook/inject/shell_reader.h"

namespace larder::webhook {
namespace {

using api::Object;
using Form = ConnectorFlag::Form;

// $NAME, ${NAME} and Kubernetes' $(NAME). A longer name with the same beginning matches as well.
bool names_variable(std::string_view text, const std::string& name) {
  for (const char* form : {"$", "${", "$("})
    if (text.find(form + name) != std::string_view::npos) return true;
  return false;
}

// The first variable with a connector that the command line uses; null: none.
// Only a variable that the command line uses: others do not reach vLLM.
Object* speaking_variable(Object& container) {
  const auto argv = argv_of(container);
  const auto list = container.find("env");
  if (list == container.end() || !list->is_array()) return nullptr;
  for (Object& variable : *list) {
    const std::string name = api::text_at(variable, "name");
    if (name.empty() || set_in(api::text_at(variable, "value")).empty()) continue;
    if (std::ranges::any_of(argv,
                            [&](const auto& word) { return word && names_variable(*word, name); }))
      return &variable;
  }
  return nullptr;
}

std::vector<FlagWord> flag_words(const ShellCommand& command) {
  std::vector<FlagWord> words;
  for (const ShellWord& word : command.words) words.push_back({word.literal(), word.many, ""});
  return words;
}

// A part of a shell's command line with Larder added to its connector.
// The value is a piece of a command line, e.g. "--max-model-len 4096 --kv-transfer-config '{...}'".
// More than one command in it is no list of flags.
Result<std::string> composed_in(const std::string& text, int chunk_tokens) {
  const auto commands = read_shell(shell_text(text));
  if (!commands.ok() || commands->size() != 1)
    return unsupported("the value is not a readable list of flags; write such a list");
  const ShellCommand& command = commands->front();
  const std::vector<FlagWord> words = flag_words(command);
  if (std::string why = refused_by_flags(words); !why.empty()) return unsupported(std::move(why));
  const ConnectorFlag flag = find_connector_flag(words);
  if (flag.form == Form::kUnreadable) return unsupported(flag.why);
  if (flag.form == Form::kAbsent)
    return unsupported(
        "the value has no readable --kv-transfer-config; write the flag out as JSON");
  const auto config = composed_config(flag.value, chunk_tokens);
  if (!config.ok()) return config.status();
  if (*config == flag.value) return text;
  // The replaced bytes are those of the word with its quotes; the rest of the value stays as the
  // user wrote it.
  const ShellWord& word = command.words[flag.word];
  const std::string quoted = shell_quoted(*config);
  std::string changed = text;
  changed.replace(
      word.begin, word.end - word.begin,
      flag.form == Form::kSameWord ? std::string(kConnectorFlag) + "=" + quoted : quoted);
  return changed;
}

// The args after a script and its $0. They count as shell text if the script evals them.
Result<bool> compose_positional(Object& container, std::size_t script, bool read_twice,
                                int chunk_tokens) {
  const auto argv = argv_of(container);
  std::vector<FlagWord> words;
  for (std::size_t at = script + 2; at < argv.size(); ++at) {
    if (!argv[at]) continue;
    const auto read =
        read_twice ? read_shell(shell_text(*argv[at])) : Result(std::vector<ShellCommand>());
    const bool plain =
        !read_twice || !read.ok() || read->size() != 1 || read->front().words.size() != 1;
    words.push_back({plain ? argv[at] : read->front().words.front().literal(), false, ""});
  }
  if (std::string why = refused_by_flags(words); !why.empty()) return unsupported(std::move(why));
  const ConnectorFlag flag = find_connector_flag(words);
  if (flag.form == Form::kAbsent) return false;
  if (flag.form == Form::kUnreadable) return unsupported(flag.why);
  const auto config = composed_config(flag.value, chunk_tokens);
  if (!config.ok()) return config.status();
  if (*config == flag.value) return true;
  const std::string value = read_twice ? shell_quoted(*config) : *config;
  const Object& command = api::at(container, "command");
  const std::size_t commands = command.is_array() ? command.size() : 0;
  const std::size_t at = script + 2 + flag.word;
  Object& member = at < commands ? container["command"][at] : container["args"][at - commands];
  member = flag.form == Form::kSameWord ? std::string(kConnectorFlag) + "=" + value : value;
  return true;
}

}  // namespace

std::string hidden_in_script(std::string_view script, const ScriptEngines& engines) {
  for (const Assignment& one : engines.assignments()) {
    const std::string set = set_in(one.value);
    if (set.empty() || !names_variable(script, one.name)) continue;
    if (one.value.find("OffloadingConnector") != std::string::npos)
      return "the script gives vLLM a cache of vLLM's own in " + one.name +
             " (KServe: kvCacheOffloading), and two caches would keep the same blocks; remove that "
             "cache, or the annotation larder.dev/pool";
    return "the script sets " + set + " in the variable " + one.name +
           "; write the flag behind `vllm serve` instead";
  }
  return "";
}

Result<bool> compose_hidden(Object& container, std::size_t script, const ScriptEngines& engines,
                            int chunk_tokens) {
  bool open = false, read_twice = true;
  // Only if all engines read the value twice: a value that one engine reads once must have no
  // quotes.
  for (std::size_t engine = 0; engine < engines.count(); ++engine) {
    const std::vector<FlagWord> words = engines.flags(engine);
    open = open || std::ranges::any_of(words, [](const FlagWord& word) { return !word.text; });
    read_twice = read_twice && engines.read_twice(engine);
  }
  if (!open) return false;
  if (Object* variable = speaking_variable(container)) {
    const std::string name = api::text_at(*variable, "name");
    // Without a second reading the shell splits an unquoted value at blanks, and JSON may have
    // blanks.
    if (!read_twice)
      return unsupported("the variable " + name +
                         " sets a connector, and the shell splits the value at blanks; write the "
                         "flag into the script");
    const auto changed = composed_in(api::text_at(*variable, "value"), chunk_tokens);
    if (!changed.ok())
      return unsupported("the variable " + name + " cannot be changed: " + changed.status().text());
    (*variable)["value"] = *changed;
    return true;
  }
  return compose_positional(container, script, read_twice, chunk_tokens);
}

}  // namespace larder::webhook
