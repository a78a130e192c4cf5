#include "operator/webhook/inject/connector_flag.h"

#include <algorithm>

#include "operator/webhook/inject/connector_config.h"
#include "operator/webhook/inject/engine_flags.h"
#include "operator/webhook/inject/flag_sources.h"
#include "operator/webhook/inject/hidden_flags.h"
#include "operator/webhook/inject/script_engines.h"

namespace larder::webhook {
namespace {

using api::Object;
using Form = ConnectorFlag::Form;

// The member of command or args for `index` of argv_of(). One past the last index: the place to
// append a word.
// Kubernetes joins command and args. A container with a command and without args gets the flag in
// command: args would be a second list for the same words.
std::pair<Object*, std::size_t> member_of(Object& container, std::size_t index) {
  const Object& command = api::at(container, "command");
  const std::size_t commands = command.is_array() ? command.size() : 0;
  const Object& args = api::at(container, "args");
  const bool has_args = args.is_array() && !args.empty();
  if (index < commands || (commands > 0 && !has_args)) return {&container["command"], index};
  return {&container["args"], index - commands};
}

std::string flag_with(const std::string& config) {
  return std::string(kConnectorFlag) + "=" + config;
}

// Invariant: a connector of the user is never lost. A place that may have one and cannot be read
// stops the injection. The order: flags that forbid any connector, an existing flag, sources that
// cannot be read, and last the new flag.
Status add_to_words(Object& container, std::size_t first, int chunk_tokens) {
  std::vector<FlagWord> words;
  const auto argv = argv_of(container);
  for (std::size_t at = first; at < argv.size(); ++at) words.push_back({argv[at], false, ""});
  if (std::string why = refused_by_flags(words); !why.empty()) return unsupported(std::move(why));
  const ConnectorFlag flag = find_connector_flag(words);
  if (flag.form == Form::kUnreadable) return unsupported(flag.why);
  if (flag.form == Form::kAbsent) {
    // Without `serve` in front, the first word of an entrypoint's args may be the model as well.
    const bool takes_model = first == 0 || argv[first - 1] == "serve";
    // No word splits without a shell, so the first word stays first in any case.
    if (std::string why = why_not(source_in_words(container, first, takes_model)); !why.empty())
      return unsupported(std::move(why));
    auto [list, at] = member_of(container, first + place_for_flag(words, true));
    // The value first, then the flag before it: the iterator of the first insertion is the place of
    // the second.
    const auto value = list->insert(list->begin() + static_cast<std::ptrdiff_t>(at),
                                    connector_config(chunk_tokens));
    list->insert(value, kConnectorFlag);
    return {};
  }
  // An existing flag keeps its form, `--kv-transfer-config X` or `--kv-transfer-config=X`, so the
  // diff stays small.
  const auto config = composed_config(flag.value, chunk_tokens);
  if (!config.ok()) return config.status();
  auto [list, at] = member_of(container, first + flag.word);
  (*list)[at] = flag.form == Form::kSameWord ? flag_with(*config) : *config;
  return {};
}

// The edit for one engine of a script. Empty: no change.
Result<std::optional<ScriptEdit>> edit_for(const ScriptEngines& engines, std::size_t engine,
                                           int chunk_tokens) {
  const std::vector<FlagWord> words = engines.flags(engine);
  if (std::string why = refused_by_flags(words); !why.empty()) return unsupported(std::move(why));
  const ConnectorFlag flag = find_connector_flag(words);
  if (flag.form == Form::kUnreadable) return unsupported(flag.why);
  if (flag.form == Form::kAbsent)
    // The JSON is quoted for a shell; ScriptEngines::put() adds the quoting of outer texts.
    return std::optional(
        engines.put(engine, place_for_flag(words, engines.takes_model(engine)),
                    {std::string(kConnectorFlag), shell_quoted(connector_config(chunk_tokens))}));
  const auto config = composed_config(flag.value, chunk_tokens);
  if (!config.ok()) return config.status();
  if (*config == flag.value) return std::optional<ScriptEdit>();
  // In an eval, a $ in the JSON would begin an expansion in the second reading.
  if (engines.read_twice(engine) && config->find('$') != std::string::npos)
    return unsupported(
        "--kv-transfer-config has a $, which the shell reads twice there; write the value out");
  const std::string quoted = shell_quoted(*config);
  auto edit =
      engines.replace(engine, flag.word, flag.form == Form::kSameWord ? flag_with(quoted) : quoted);
  if (!edit.ok()) return edit.status();
  return std::optional(*edit);
}

// The worst source among all engines of the script.
// One engine with a hidden connector stops the injection of the whole script: its engines may share
// variables.
FlagSource worst_source(const Object& container, std::size_t script, const ScriptEngines& engines) {
  FlagSources sources(container, script + 1, engines);
  FlagSource worst;
  for (std::size_t engine = 0; engine < engines.count(); ++engine) {
    FlagSource one = sources.of_engine(engine);
    if (one.kind > worst.kind) worst = std::move(one);
  }
  return worst;
}

Status add_to_script(Object& container, std::size_t index, int chunk_tokens) {
  auto [list, at] = member_of(container, index);
  const std::string script = (*list)[at].get<std::string>();
  const auto engines = ScriptEngines::find(script);
  // This way out works for every script: the user gives the flag.
  const std::string otherwise =
      ", or set spec.engine.flags of the pool to false and give vLLM the flag --kv-transfer-config "
      "yourself";
  if (!engines.ok())
    return unsupported("the script cannot be read (" + engines.status().text() +
                       "); correct the script" + otherwise);
  if (engines->count() == 0)
    return unsupported("the script does not start a written-out `vllm serve`; write one" +
                       otherwise);
  if (std::string why = hidden_in_script(script, *engines); !why.empty())
    return unsupported(std::move(why));
  const FlagSource source = worst_source(container, index, *engines);
  if (source.kind >= FlagSource::Kind::kUnread) return unsupported(why_not(source));
  // A connector in a variable stays in the variable, which then has Larder too, for all engines.
  const Result<bool> hidden = compose_hidden(container, index, *engines, chunk_tokens);
  if (!hidden.ok()) return hidden.status();
  if (*hidden) return {};
  if (source.kind == FlagSource::Kind::kConnector) return unsupported(why_not(source));
  // All edits are computed before the first one is applied: the positions are those of the original
  // text.
  std::vector<ScriptEdit> edits;
  for (std::size_t engine = 0; engine < engines->count(); ++engine) {
    const auto edit = edit_for(*engines, engine, chunk_tokens);
    if (!edit.ok()) return edit.status();
    if (*edit) edits.push_back(**edit);
  }
  (*list)[at] = edited(script, std::move(edits));
  return {};
}

}  // namespace

Status add_connector_flag(Object& container, const CommandShape& shape, int chunk_tokens) {
  if (shape.kind == CommandShape::Kind::kScript)
    return add_to_script(container, shape.index, chunk_tokens);
  return add_to_words(container, shape.index, chunk_tokens);
}

// For an unreadable script the answer is "no engine": the injector never guesses.
bool starts_engine(const Object& container, const CommandShape& shape) {
  switch (shape.kind) {
    case CommandShape::Kind::kArgv: return true;
    case CommandShape::Kind::kEntrypoint:
      return looks_like_engine(container) && are_engine_args(container);
    case CommandShape::Kind::kScript: {
      const auto engines = ScriptEngines::find(argv_of(container)[shape.index].value_or(""));
      return engines.ok() && engines->count() > 0;
    }
    default: return false;
  }
}

}  // namespace larder::webhook
