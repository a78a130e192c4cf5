#include "operator/webhook/inject/engine_container.h"

#include "operator/webhook/inject/connector_flag.h"

namespace larder::webhook {
namespace {

using api::Object;
using Kind = CommandShape::Kind;

constexpr std::size_t kMostNames = 200;  // bytes of containers' names in a sentence

std::string names_of(const Object& containers) {
  std::string names;
  for (const Object& container : containers) names += (names.empty() ? "" : ", ") + api::text_at(container, "name");
  return names.size() <= kMostNames ? names : names.substr(0, kMostNames) + "...";
}

// Why a container whose flags we would have to add cannot be given any; "" where it can.
std::string why_not(const CommandShape& shape) {
  if (shape.kind == Kind::kUnseen)
    return "has neither command nor args, so that its image alone decides vLLM's flags; write out its args";
  if (shape.kind == Kind::kForeign)
    return "has a command that is not known to start vLLM; start it by `vllm serve`, or set spec.engine.flags of the pool to "
           "false and "
           "give vLLM the flag --kv-transfer-config yourself";
  return "";
}

Result<std::vector<EngineContainer>> named_engine(const Object& containers, const api::EngineSpec& spec) {
  for (std::size_t at = 0; at < containers.size(); ++at) {
    if (api::text_at(containers[at], "name") != spec.container) continue;
    const CommandShape shape = shape_of(containers[at]);
    if (const std::string why = why_not(shape); spec.flags && !why.empty())
      return Status(Code::kUnsupported, "its container " + spec.container + " " + why);
    return std::vector<EngineContainer>{{at, shape}};
  }
  return Status(Code::kUnsupported, "it has no container " + spec.container +
                                        ", which spec.engine.container of the pool names; it has " + names_of(containers));
}

}  // namespace

Result<std::vector<EngineContainer>> find_engines(const Object& pod, const api::EngineSpec& spec) {
  const Object& containers = api::at(pod, "spec.containers");
  if (!spec.container.empty()) return named_engine(containers, spec);
  std::vector<EngineContainer> surely, perhaps;
  for (std::size_t at = 0; at < containers.size(); ++at) {
    const CommandShape shape = shape_of(containers[at]);
    if (!starts_engine(containers[at], shape)) continue;
    (shape.kind == Kind::kEntrypoint ? perhaps : surely).push_back({at, shape});
  }
  if (!surely.empty()) return surely;
  if (!perhaps.empty()) return perhaps;
  for (const Object& container : containers)
    if (const std::string why = why_not(shape_of(container)); looks_like_engine(container) && !why.empty())
      return Status(Code::kUnsupported, "its container " + api::text_at(container, "name") + " " + why);
  return Status(Code::kUnsupported,
                "no container of it (" + names_of(containers) +
                    ") starts vLLM in a way that is known; write `vllm serve` in its command, or name the engine's "
                    "container in spec.engine.container of the pool");
}

}  // namespace larder::webhook
