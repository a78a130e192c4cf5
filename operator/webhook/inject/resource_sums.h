// Resources of containers and pods, counted like LimitRanger and ResourceQuota of Kubernetes.
//
// Pure; thread-safe; never throws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/object.h"

namespace larder::webhook {

inline constexpr std::string_view kCpu = "cpu";

// In thousandths of the resource's unit (processors, bytes). Empty: missing, or not a readable
// quantity.
using Amount = std::optional<std::uint64_t>;

Amount amount_of(const api::Object& quantity);

// In the form of Kubernetes: "250m" for processors, "4416Mi" for others. Rounds bytes up.
std::string amount_text(std::string_view resource, std::uint64_t amount);

// `section`: "requests" or "limits". A missing request equals the limit.
Amount container_amount(const api::Object& container, std::string_view section,
                        std::string_view resource);

// The amount of a pod for LimitRanger: the sum over containers and native sidecars, or a larger
// amount of an init phase. A resource of the whole pod replaces the sum.
Amount pod_amount(const api::Object& pod, std::string_view section, std::string_view resource);

// The amount for ResourceQuota: the same plus the overhead of the pod's RuntimeClass.
Amount quota_amount(const api::Object& pod, std::string_view section, std::string_view resource);

// Bytes (in thousandths) and number of claims of the pod's ephemeral volumes. `storage_class`: only
// this class; empty: all.
struct Claims {
  std::uint64_t storage = 0, count = 0;
};
Claims pod_claims(const api::Object& pod, std::string_view storage_class);

// Whether no container has requests for processors or memory.
bool is_best_effort(const api::Object& pod);

}  // namespace larder::webhook
