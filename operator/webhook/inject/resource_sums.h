// Resources of containers and pods as LimitRanger and ResourceQuota of Kubernetes count them.
//
// Pure; thread-safe; never throws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/object.h"

namespace larder::webhook {

// In thousandths of the resource's unit (processors, bytes). Nothing: not there, or no quantity that can be read.
using Amount = std::optional<std::uint64_t>;

Amount amount_of(const api::Object& quantity);

// As Kubernetes writes it: "250m" of processors, "4416Mi" of all else. Bytes are rounded up.
std::string amount_text(std::string_view resource, std::uint64_t amount);

// `section`: "requests" or "limits". A request that is missing is the limit.
Amount container_amount(const api::Object& container, std::string_view section, std::string_view resource);

// What a pod takes: all containers and native sidecars together, or the most that its init phases take; its overhead on top. Where the
// pod sets the resource for the whole of itself, that.
Amount pod_amount(const api::Object& pod, std::string_view section, std::string_view resource);

// Bytes (in thousandths) and number of the claims that the pod's ephemeral volumes make. `storage_class`: of these alone; empty: all.
struct Claims {
  std::uint64_t storage = 0, count = 0;
};
Claims pod_claims(const api::Object& pod, std::string_view storage_class);

// Whether no container asks for processors or memory.
bool is_best_effort(const api::Object& pod);

}  // namespace larder::webhook
