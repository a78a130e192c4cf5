#include "operator/webhook/inject/engine_environment.h"

#include <algorithm>
#include <set>

#include "operator/webhook/inject/flag_sources.h"
#include "operator/webhook/inject/script_engines.h"
#include "operator/webhook/inject/shell_expansion.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr const char* kName = "PYTHONPATH";
constexpr const char* kEarlier = "LARDER_ENGINE_PYTHONPATH";  // the value of valueFrom
// KServe's images 0.17 to 0.20, for GPUs and for CPUs. A missing folder does no harm.
constexpr const char* kImagesPath = ":/kserve-workspace/huggingfaceserver:/huggingfaceserver";
constexpr const char* kSocket = "LARDER_SOCKET";
constexpr const char* kPool = "LARDER_POOL";
constexpr const char* kAllocator = "PYTORCH_CUDA_ALLOC_CONF";

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
  Object* variable = find_variable(environment, kName);
  if (variable == nullptr) {
    // Kubernetes keeps an undefined $(NAME), which then is a missing folder.
    const Object& from = api::at(container, "envFrom");
    return add_variable(
        environment, kName,
        from.is_array() && !from.empty() ? ours + ":$(" + kName + ")" + images : ours + images);
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
                     Object{{"name", kName}, {"value", ours + ":$(" + kEarlier + ")"}});
}

// Whether a variable's new value contains the old PYTHONPATH, directly or through other variables.
// `seen` bounds the walk: variables may refer to each other in circles.
bool keeps_path(const ScriptEngines& script, const Assignment& one, std::set<std::string>& seen) {
  for (const ScriptWord& word : one.words)
    for (const std::string& written : word.expansions) {
      const std::string name = expansion_of(written).name;
      if (name == kName) return true;
      if (name.empty() || seen.size() >= kMostInside || !seen.insert(name).second) continue;
      for (const Assignment& other : script.assignments())
        if (other.name == name && keeps_path(script, other, seen)) return true;
    }
  return false;
}

// `unset PYTHONPATH`, `export -n PYTHONPATH`, `declare +x PYTHONPATH`.
bool unsets_path(const ScriptEngines::Command& command) {
  const auto has = [&command](std::string_view word) {
    return std::ranges::any_of(command.words,
                               [word](const ScriptWord& one) { return one.text == word; });
  };
  return has(kName) && (has("unset") || has("+x") || (has("export") && has("-n")));
}

// Why engines of a script would lack Larder's package, and the remedy; "": they have the package.
// `PYTHONPATH=/app:$PYTHONPATH` keeps Larder's folder; `PYTHONPATH=/app` loses it, and vLLM would
// not start with the connector's flag.
std::string lost_in(const ScriptEngines& script) {
  for (const Assignment& one : script.assignments()) {
    std::set<std::string> seen;
    if (one.name == kName && !one.adds && !keeps_path(script, one, seen))
      return "the script replaces PYTHONPATH; write PYTHONPATH=FOLDER:$PYTHONPATH to keep the "
             "present value";
  }
  if (std::ranges::any_of(script.commands(), unsets_path))
    return "the script removes PYTHONPATH, by which vLLM finds Larder's package; leave the "
           "variable unchanged";
  for (std::size_t engine = 0; engine < script.count(); ++engine)
    if (!script.lost(engine).empty()) return lost_by(script.lost(engine));
  return "";
}

// The line stands in front of the script, so every engine of the script inherits the variable.
// ${PYTHONPATH:+...} adds no empty entry.
Status export_python_path(Object& container, std::size_t script) {
  const Object& command = api::at(container, "command");
  const std::size_t commands = command.is_array() ? command.size() : 0;
  Object& member =
      script < commands ? container["command"][script] : container["args"][script - commands];
  const std::string text = member.get<std::string>();
  const auto read = ScriptEngines::find(text);
  if (read.ok())
    if (std::string why = lost_in(*read); !why.empty()) return {Code::kUnsupported, std::move(why)};
  member =
      "export PYTHONPATH=\"" + std::string(kPythonPath) + "${PYTHONPATH:+:$PYTHONPATH}\"\n" + text;
  return {};
}

// vLLM refuses every connector with this allocator, unless vLLM's memory pool switches the
// allocator off.
bool has_moving_memory(const Object& container) {
  const Object& environment = api::at(container, "env");
  const bool set =
      environment.is_array() && std::ranges::any_of(environment, [](const Object& variable) {
        return api::text_at(variable, "name") == kAllocator &&
               api::text_at(variable, "value").find("expandable_segments:True") !=
                   std::string::npos;
      });
  if (!set) return false;
  for (const auto& word : argv_of(container))
    if (word &&
        (word->find("sleep-mode") != std::string::npos || word->find("cumem") != std::string::npos))
      return false;
  return true;
}

}  // namespace

// Another LARDER_SOCKET would attach the engine to a foreign larderd.
Status set_environment(Object& container, const CommandShape& shape, const std::string& socket,
                       const std::string& pool) {
  if (has_moving_memory(container))
    return {Code::kUnsupported,
            "the variable PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True, and vLLM then "
            "refuses to start with any "
            "connector; remove expandable_segments:True, or add --enable-sleep-mode"};
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
