#include "operator/webhook/inject/engine_container.h"

#include "operator/webhook/inject/connector_flag.h"
#include "operator/webhook/inject/ray_group.h"

namespace larder::webhook {
namespace {

using api::Object;
using ShapeKind = CommandShape::Kind;

constexpr std::size_t kMostNames = 200;  // bytes of container names in a sentence

std::string names_of(const Object& containers) {
  std::string names;
  for (const Object& container : containers)
    names += (names.empty() ? "" : ", ") + api::text_at(container, "name");
  return names.size() <= kMostNames ? names : names.substr(0, kMostNames) + "...";
}

// Why a container cannot get flags; "": flags are possible or not needed.
// Only shapes without readable words: scripts give their reasons in connector_flag.cc. `named`: the
// pool names the container.
std::string why_not(const Object& container, const CommandShape& shape, bool named) {
  if (shape.kind == ShapeKind::kUnseen)
    return "has neither command nor args, so the image alone decides vLLM's flags; write out the "
           "args";
  const Object& command = api::at(container, "command");
  if ((shape.kind == ShapeKind::kForeign && (!command.is_array() || command.empty())) ||
      (shape.kind == ShapeKind::kEntrypoint && !named && !are_engine_args(container)))
    return "has args that begin with a program, not with a model or a flag of vLLM; write `vllm "
           "serve` in front of vLLM's args";
  if (shape.kind == ShapeKind::kForeign)
    return "has a command that is not known to start vLLM; start vLLM by `vllm serve`, or set "
           "spec.engine.flags of the pool to "
           "false and give vLLM the flag --kv-transfer-config yourself";
  return "";
}

// The pool's own word counts without any evidence in command or image. Only flags need a known
// command.
Result<std::vector<EngineContainer>> named_engine(const Object& containers,
                                                  const api::EngineSpec& spec) {
  for (std::size_t at = 0; at < containers.size(); ++at) {
    if (api::text_at(containers[at], "name") != spec.container) continue;
    const CommandShape shape = shape_of(containers[at]);
    if (const std::string why = why_not(containers[at], shape, true); spec.flags && !why.empty())
      return Status(Code::kUnsupported, "container " + spec.container + " " + why);
    return std::vector<EngineContainer>{{at, shape}};
  }
  return Status(Code::kUnsupported,
                "the pod has no container " + spec.container +
                    ", which spec.engine.container of the pool names; write one of " +
                    names_of(containers));
}

// Whether another container may start vLLM in a way that is not known: by a script of its image.
bool may_start_elsewhere(const Object& containers, std::size_t besides) {
  for (std::size_t at = 0; at < containers.size(); ++at) {
    const CommandShape shape = shape_of(containers[at]);
    const Object& command = api::at(containers[at], "command");
    const bool unknown = command.is_array() && !command.empty() &&
                         (shape.kind == ShapeKind::kForeign || shape.kind == ShapeKind::kScript);
    if (at != besides && unknown && !starts_engine(containers[at], shape)) return true;
  }
  return false;
}

// Engines among containers with only an image as evidence: a single one, or else all whose args are
// certainly args of vLLM.
// Two containers of one vLLM image: the engine and, e.g., a downloader. Args of vLLM tell them
// apart.
Result<std::vector<EngineContainer>> likeliest(const Object& containers,
                                               std::vector<EngineContainer> perhaps) {
  if (perhaps.size() == 1 && !may_start_elsewhere(containers, perhaps[0].index)) return perhaps;
  const bool alone = perhaps.size() == 1;
  std::string names;
  for (const EngineContainer& one : perhaps)
    names += (names.empty() ? "" : ", ") + api::text_at(containers[one.index], "name");
  std::erase_if(
      perhaps, [&](const EngineContainer& one) { return !has_engine_args(containers[one.index]); });
  if (!perhaps.empty()) return perhaps;
  if (alone)
    return Status(Code::kUnsupported,
                  "only the image's name of container " + names.substr(0, kMostNames) +
                      " points to vLLM, and another container may be the engine; name the engine's "
                      "container in spec.engine.container of the pool");
  return Status(
      Code::kUnsupported,
      "several containers of the pod may be the engine (" + names.substr(0, kMostNames) +
          "), and no container has args that are surely vLLM's; name the engine's container in "
          "spec.engine.container of the pool");
}

// Why no container is an engine, and the remedy.
// The most specific reason first: an image of vLLM without args, then an engine among the init
// containers.
std::string none_of(const Object& pod, const Object& containers) {
  for (const Object& container : containers)
    if (const std::string why = why_not(container, shape_of(container), false);
        looks_like_engine(container) && !why.empty())
      return "container " + api::text_at(container, "name") + " " + why;
  for (const Object& container : api::at(pod, "spec.initContainers"))
    if (starts_engine(container, shape_of(container)))
      return "engine " + api::text_at(container, "name") +
             " is an init container, and the injector does not change init containers; move the "
             "engine to spec.containers";
  return "no container of the pod (" + names_of(containers) +
         ") starts vLLM in a known way; write `vllm serve` in the engine's command, or name the "
         "engine's container in spec.engine.container of the pool";
}

}  // namespace

Result<std::vector<EngineContainer>> find_engines(const Object& pod, const api::EngineSpec& spec) {
  // Before any container is looked at: all pods of a group must get the same answer.
  if (std::string why = ray_group(pod); !why.empty())
    return Status(Code::kUnsupported, std::move(why));
  const Object& containers = api::at(pod, "spec.containers");
  if (!spec.container.empty()) return named_engine(containers, spec);
  std::vector<EngineContainer> surely, perhaps;
  for (std::size_t at = 0; at < containers.size(); ++at) {
    // A command that surely starts vLLM outweighs every image name.
    const CommandShape shape = shape_of(containers[at]);
    if (!starts_engine(containers[at], shape)) continue;
    (shape.kind == ShapeKind::kEntrypoint ? perhaps : surely).push_back({at, shape});
  }
  if (!surely.empty()) return surely;
  if (!perhaps.empty()) return likeliest(containers, std::move(perhaps));
  return Status(Code::kUnsupported, none_of(pod, containers));
}

}  // namespace larder::webhook
