#include "operator/api/resource_rules.h"

namespace larder::api {
namespace {

// Thousandths of a processor, or bytes.
Result<std::uint64_t> amount(const std::string& name, const std::string& text) {
  return name == "cpu" ? quantity_milli(text) : quantity_bytes(text);
}

std::optional<WrongResource> wrong_memory(const std::string& limit, std::uint64_t bytes,
                                          const MemoryNeed& need) {
  if (bytes >= need.bytes) return std::nullopt;
  return WrongResource{"limits.memory", "'" + limit + "' is below the need of " +
                                            std::string(need.what) +
                                            ": remove the limit, or set at least " +
                                            std::to_string(need.bytes / kMi) + "Mi"};
}

std::optional<WrongResource> wrong(const Object& resources, const std::string& name,
                                   const MemoryNeed& need) {
  // The quantity texts go into messages unchanged, so users find their own words again.
  std::string limit = quantity_text(child(child(resources, "limits"), name));
  const std::string request = quantity_text(child(child(resources, "requests"), name));
  // larderd's container gets a memory limit also where the pool has no limit. A request above that
  // limit would make a pod that the API server refuses.
  if (limit.empty() && name == "memory" && need.is_limit) limit = std::to_string(need.bytes);
  const Result<std::uint64_t> most = limit.empty() ? std::uint64_t{0} : amount(name, limit);
  if (!most.ok()) return WrongResource{"limits." + name, most.status().text()};
  if (name == "memory" && !limit.empty())
    if (std::optional<WrongResource> low = wrong_memory(limit, *most, need)) return low;
  const Result<std::uint64_t> asked = request.empty() ? std::uint64_t{0} : amount(name, request);
  // Kubernetes refuses a request above its limit only when the pod is created. An early error on
  // the pool is easier to find.
  if (!asked.ok()) return WrongResource{"requests." + name, asked.status().text()};
  if (limit.empty() || *asked <= *most) return std::nullopt;
  return WrongResource{"requests." + name, "'" + request + "' is above the limit, " + limit};
}

}  // namespace

std::optional<WrongResource> wrong_resource(const Object& resources, const MemoryNeed& need) {
  // Other resources (GPUs, huge pages) have rules of their own at the API server, and the operator
  // sets them by other fields.
  for (const char* name : {"memory", "cpu", "ephemeral-storage"})
    if (std::optional<WrongResource> found = wrong(resources, name, need)) return found;
  return std::nullopt;
}

}  // namespace larder::api
