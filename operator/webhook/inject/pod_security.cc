#include "operator/webhook/inject/pod_security.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "operator/api/names.h"
#include "operator/webhook/inject/pod_form.h"

namespace larder::webhook {
namespace {

using api::Object;

// Capabilities that the level baseline lets a container add. `restricted` allows the last one only.
constexpr std::array<std::string_view, 13> kCapabilities{
    "AUDIT_WRITE", "CHOWN",      "DAC_OVERRIDE",    "FOWNER", "FSETID",
    "KILL",        "MKNOD",      "SETFCAP",         "SETGID", "SETPCAP",
    "SETUID",      "SYS_CHROOT", "NET_BIND_SERVICE"};
constexpr std::array<std::string_view, 5> kTypes{"", "container_t", "container_init_t",
                                                 "container_kvm_t", "container_engine_t"};

bool has_host_path(const Object& pod) {
  const Object& volumes = api::at(pod, "spec.volumes");
  return volumes.is_array() && std::ranges::any_of(volumes, [](const Object& volume) {
           return volume.is_object() && volume.contains("hostPath");
         });
}

// The field of a container's securityContext that the level forbids; "": none.
std::string forbidden_by_baseline(const Object& security) {
  for (const Object& added : api::at(security, "capabilities.add"))
    if (added.is_string() &&
        std::ranges::find(kCapabilities, added.get_ref<const std::string&>()) ==
            kCapabilities.end())
      return "capabilities.add";
  if (api::text_at(security, "seccompProfile.type") == "Unconfined") return "seccompProfile";
  const bool labelled = !api::text_at(security, "seLinuxOptions.user").empty() ||
                        !api::text_at(security, "seLinuxOptions.role").empty();
  const std::string type = api::text_at(security, "seLinuxOptions.type");
  return labelled || std::ranges::find(kTypes, type) == kTypes.end() ? "seLinuxOptions" : "";
}

std::string forbidden_by_restricted(const Object& security) {
  if (api::truth_at(security, "allowPrivilegeEscalation", true)) return "allowPrivilegeEscalation";
  if (!api::truth_at(security, "runAsNonRoot")) return "runAsNonRoot";
  if (api::number_at(security, "runAsUser", 1) == 0) return "runAsUser";
  if (!lists(api::at(security, "capabilities.drop"), "ALL")) return "capabilities.drop";
  for (const Object& added : api::at(security, "capabilities.add"))
    if (added != Object(kCapabilities.back())) return "capabilities.add";
  return "";
}

}  // namespace

std::optional<std::string> enforced_level(const Input& input) {
  if (input.surroundings.ns == nullptr) return std::nullopt;
  return api::label(*input.surroundings.ns, kPodSecurityLabel);
}

std::string refused_by_pod_security(const Input& input, const Object& after) {
  const std::string level = enforced_level(input).value_or("");
  if (level != "baseline" && level != "restricted") return "";
  const std::string forbids = "Pod Security " + level + " (label " +
                              std::string(kPodSecurityLabel) + " of the namespace) forbids ";
  if (has_host_path(after) && !has_host_path(input.pod))
    return forbids +
           "hostPath volumes, which placement Node needs; use a pool of placement Sidecar, or give "
           "the namespace the level privileged";
  for (const char* list : {"spec.initContainers", "spec.containers"})
    for (const Object& container : api::at(after, list)) {
      if (!api::is_injected(api::text_at(container, "name"))) continue;
      const Object& security = api::child(container, "securityContext");
      std::string field = forbidden_by_baseline(security);
      if (field.empty() && level == "restricted") field = forbidden_by_restricted(security);
      if (!field.empty())
        return forbids + "the " + field + " of container " + api::text_at(container, "name") +
               "; correct podSecurity of CachePool " + input.pool->name +
               ", or give the namespace another level";
    }
  return "";
}

}  // namespace larder::webhook
