#include "operator/webhook/inject/moving_memory.h"

#include <algorithm>
#include <array>
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

bool is_unread(const Object& container, const std::string& name) {
  return variable_of(container, name).kind == Variable::kUnread;
}

// Whether Kubernetes puts an unreadable value into the text.
bool has_unread(const Object& container, const std::string& text) {
  return std::ranges::any_of(kubernetes_names(text), [&container](const std::string& name) {
    return is_unread(container, name);
  });
}

// The variable of torch with an unreadable value in env, or from a prefix of envFrom; "": none.
std::string unread_variable(const Object& container) {
  for (const Object& variable : api::at(container, "env")) {
    const std::string name = api::text_at(variable, "name");
    if (is_allocator(name) && (!api::at(variable, "valueFrom").is_null() ||
                               has_unread(container, api::text_at(variable, "value"))))
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

// Whether a value that the script assigns comes from a source that cannot be read.
bool is_unread(const Object& container, const ScriptEngines& script, const Assignment& one,
               std::set<std::string>& seen) {
  for (const ScriptWord& word : one.words)
    for (const std::string& written : word.expansions) {
      const Expansion expansion = expansion_of(written);
      const std::string& name = expansion.name;
      if (expansion.kind == Expansion::Kind::kUnknown) return true;
      if (name.empty() || !seen.insert(name).second) continue;
      if (seen.size() > kMostInside) return true;
      const Variable kind = variable_of(container, name).kind;
      if (kind == Variable::kUnread) return true;
      // $(NAME) without a variable is the output of a command.
      if (expansion.kind == Expansion::Kind::kKubernetes && kind == Variable::kAbsent) return true;
      for (const Assignment& other : script.assignments())
        if (other.name == name && is_unread(container, script, other, seen)) return true;
    }
  return false;
}

std::string unread_in_script(const Object& container, const std::string& text) {
  const auto script = ScriptEngines::find(text);
  if (!script.ok()) return "";
  for (const Assignment& one : script->assignments()) {
    std::set<std::string> seen;
    if (is_allocator(one.name) && is_unread(container, *script, one, seen)) return one.name;
  }
  for (const ScriptEngines::Command& command : script->commands())
    for (const std::string& name : read_by(command))
      if (is_allocator(name)) return name;
  return "";
}

// `env NAME=$(X) vllm serve m`.
std::string unread_in_words(const Object& container) {
  for (const auto& word : argv_of(container)) {
    const std::string name = word ? word->substr(0, word->find('=')) : "";
    if (is_allocator(name) && has_unread(container, *word)) return name;
  }
  return "";
}

}  // namespace

std::string moving_memory(const Object& container, std::size_t script) {
  bool says = false;
  const auto argv = argv_of(container);
  for (const auto& word : argv) {
    if (!word) continue;
    // vLLM's own memory pool switches the allocator off.
    if (word->find("sleep-mode") != std::string::npos || word->find("cumem") != std::string::npos)
      return "";
    says = says || says_expandable(without_comment_lines(*word));
  }
  for (const Object& variable : api::at(container, "env"))
    says = says || says_expandable(api::text_at(variable, "value"));
  for (const Object& source : api::at(container, "envFrom"))
    for (const Object& value : api::child(source, kRead))
      says = says || (value.is_string() && says_expandable(value.get_ref<const std::string&>()));
  if (says)
    return "a variable of torch (PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF) has "
           "expandable_segments:True, and vLLM then refuses to start with any connector; remove "
           "expandable_segments:True, or add --enable-sleep-mode";
  std::string name = unread_variable(container);
  if (name.empty()) name = unread_in_words(container);
  if (name.empty() && script < argv.size() && argv[script])
    name = unread_in_script(container, *argv[script]);
  if (name.empty()) return "";
  return "the variable " + name +
         " may have expandable_segments:True, with which vLLM refuses every connector, and the "
         "injector cannot read its value; write the value into env, or add --enable-sleep-mode";
}

}  // namespace larder::webhook
