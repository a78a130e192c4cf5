#include "operator/webhook/inject/moving_memory.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

#include "operator/webhook/inject/command_shape.h"
#include "operator/webhook/inject/config_maps.h"
#include "operator/webhook/inject/container_variables.h"
#include "operator/webhook/inject/flag_sources.h"
#include "operator/webhook/inject/script_engines.h"
#include "operator/webhook/inject/script_setters.h"
#include "operator/webhook/inject/shell_expansion.h"
#include "operator/webhook/inject/shell_text.h"

namespace larder::webhook {
namespace {

using api::Object;
using Variable = ContainerVariable::Kind;

// Read by torch; vLLM's check reads the second one.
constexpr std::array<std::string_view, 3> kAllocators{
    "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"};
constexpr std::string_view kSegments = "expandable_segments", kOff = ":False";
// Flags of vLLM's own memory pool, which switches expandable segments off.
constexpr std::array<std::string_view, 2> kPools{"enable-sleep-mode", "enable-cumem-allocator"};

bool is_allocator(std::string_view name) {
  return std::ranges::find(kAllocators, name) != kAllocators.end();
}

bool says_expandable(std::string_view text) {
  if (text.find("segments:True") != std::string_view::npos) return true;
  for (std::size_t at = text.find(kSegments); at != std::string_view::npos;
       at = text.find(kSegments, at + 1))
    if (!text.substr(at + kSegments.size()).starts_with(kOff)) return true;
  return false;
}

bool is_path_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '/';
}

// Whether the text has the flag as a whole word, also with =VALUE.
bool has_flag(std::string_view text, const std::string& flag) {
  for (std::size_t at = text.find(flag); at != std::string_view::npos;
       at = text.find(flag, at + 1)) {
    const std::size_t end = at + flag.size();
    if ((at == 0 || !is_path_part(text[at - 1])) &&
        (end == text.size() || !is_path_part(text[end])))
      return true;
  }
  return false;
}

// `words`: one per line. With a flag and its opposite (--no-...) the last one counts for vLLM; here
// the opposite does.
bool has_own_pool(std::string words) {
  std::ranges::replace(words, '_', '-');
  return std::ranges::any_of(kPools, [&words](std::string_view name) {
    const std::string flag(name);
    return has_flag(words, "--" + flag) && !has_flag(words, "--no-" + flag);
  });
}

// Whether the variable has an unreadable value, or a value with expandable segments.
bool may_expand(const Object& container, const std::string& name) {
  const ContainerVariable variable = variable_of(container, name);
  return variable.kind == Variable::kUnread || says_expandable(variable.text);
}

// Whether Kubernetes puts such a value into the text.
bool gets_expandable(const Object& container, const std::string& text) {
  return std::ranges::any_of(kubernetes_names(text), [&container](const std::string& name) {
    return may_expand(container, name);
  });
}

// The variable of torch with such a value in env, or from a prefix of an unread envFrom; "": none.
std::string open_variable(const Object& container) {
  for (const Object& variable : api::at(container, "env")) {
    const std::string name = api::text_at(variable, "name");
    if (is_allocator(name) && (!api::at(variable, "valueFrom").is_null() ||
                               gets_expandable(container, api::text_at(variable, "value"))))
      return name;
  }
  for (const Object& source : api::at(container, "envFrom")) {
    if (api::child(source, kRead).is_object()) continue;
    const std::string prefix = api::text_at(source, "prefix");
    for (const std::string_view name : kAllocators)
      if (!prefix.empty() && name.starts_with(prefix)) return std::string(name);
  }
  return "";
}

// Whether a value that the script assigns comes from such a variable, or from a source that cannot
// be read.
bool may_expand(const Object& container, const ScriptEngines& script, const Assignment& one,
                std::set<std::string>& seen) {
  for (const ScriptWord& word : one.words)
    for (const std::string& written : word.expansions) {
      const Expansion expansion = expansion_of(written);
      const std::string& name = expansion.name;
      if (expansion.kind == Expansion::Kind::kUnknown) return true;
      if (name.empty() || !seen.insert(name).second) continue;
      if (seen.size() > kMostInside) return true;
      if (may_expand(container, name)) return true;
      // $(NAME) without a variable is the output of a command.
      if (expansion.kind == Expansion::Kind::kKubernetes &&
          variable_of(container, name).kind == Variable::kAbsent)
        return true;
      for (const Assignment& other : script.assignments())
        if (other.name == name && may_expand(container, script, other, seen)) return true;
    }
  return false;
}

std::string open_in_script(const Object& container, const std::string& text) {
  const auto script = ScriptEngines::find(text);
  if (!script.ok()) return "";
  for (const Assignment& one : script->assignments()) {
    std::set<std::string> seen;
    if (is_allocator(one.name) && may_expand(container, *script, one, seen)) return one.name;
  }
  for (const ScriptEngines::Command& command : script->commands())
    for (const std::string& name : read_by(command))
      if (is_allocator(name)) return name;
  return "";
}

// `env NAME=$(X) vllm serve m`.
std::string open_in_words(const Object& container) {
  for (const auto& word : argv_of(container)) {
    const std::string name = word ? word->substr(0, word->find('=')) : "";
    if (is_allocator(name) && gets_expandable(container, *word)) return name;
  }
  return "";
}

}  // namespace

std::string moving_memory(const Object& container, std::size_t script) {
  const auto argv = argv_of(container);
  std::string words;
  for (const auto& word : argv) words += without_comment_lines(word.value_or(""));
  if (has_own_pool(words)) return "";
  bool says = says_expandable(words);
  for (const Object& variable : api::at(container, "env"))
    says = says || says_expandable(api::text_at(variable, "value"));
  // The variable may be in a read ConfigMap, although a later Secret may replace it.
  for (const std::string_view name : kAllocators)
    says = says || says_expandable(readable_variable(container, std::string(name)).text);
  if (says)
    return "a variable of torch (PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF) has "
           "expandable_segments:True, and vLLM then refuses to start with any connector; remove "
           "expandable_segments:True, or add --enable-sleep-mode";
  std::string name = open_variable(container);
  if (name.empty()) name = open_in_words(container);
  if (name.empty() && script < argv.size() && argv[script])
    name = open_in_script(container, *argv[script]);
  if (name.empty()) return "";
  return "the variable " + name +
         " may get expandable_segments:True from outside the pod, and vLLM then refuses every "
         "connector; write the value into env, or add --enable-sleep-mode";
}

}  // namespace larder::webhook
