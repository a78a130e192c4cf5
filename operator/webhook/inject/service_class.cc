#include "operator/webhook/inject/service_class.h"

#include <algorithm>

#include "operator/webhook/inject/pod_form.h"
#include "operator/webhook/inject/resource_sums.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr const char* kOneProcessor = "1";
// No whole number: the kubelet's static policy would give the container exclusive CPUs. With the
// option full-pcpus-only the kubelet refuses a pod for an odd number (SMTAlignmentError).
constexpr const char* kGuaranteedCpu = "1100m";
constexpr std::uint64_t kMilli = 1000;
constexpr const char* kStorage = "ephemeral-storage";

// The rule of Kubernetes for the class Guaranteed: limits of both resources, and requests equal to
// the limits (or absent, which means equal).
bool is_guaranteed_container(const Object& container) {
  for (const char* resource : {"cpu", "memory"}) {
    const std::string path = std::string("resources.limits.") + resource;
    const Object& limit = api::at(container, path);
    const Object& request = api::at(container, std::string("resources.requests.") + resource);
    if (limit.is_null() || (!request.is_null() && request != limit)) return false;
  }
  return true;
}

bool has_cpu_limit(const Object& container) {
  return !api::at(container, "resources.limits.cpu").is_null();
}

// Init containers count as well, as in Kubernetes.
bool all_containers(const Object& pod, bool (*test)(const Object&)) {
  return std::ranges::all_of(api::at(pod, "spec.containers"), test) &&
         std::ranges::all_of(api::at(pod, "spec.initContainers"), test);
}

}  // namespace

bool is_guaranteed(const Object& pod) {
  return all_containers(pod, is_guaranteed_container);
}

bool has_cpu_limits(const Object& pod) {
  return all_containers(pod, has_cpu_limit);
}

// Added only where missing; the request of the pool may be larger than one CPU.
void limit_cpu(Object& container) {
  Object& resources = map_in(container, "resources");
  Object& limits = map_in(resources, "limits");
  if (limits.contains("cpu")) return;
  const std::string request = api::text_at(resources, "requests.cpu");
  const Result<std::uint64_t> milli = api::quantity_milli(request);
  limits["cpu"] = milli.ok() && *milli > kMilli ? request : kOneProcessor;
}

void fit_storage(Object& container, const Object& pod, std::uint64_t added_bytes) {
  Object& resources = map_in(container, "resources");
  Object &limits = map_in(resources, "limits"), &requests = map_in(resources, "requests");
  if (pod_amount(pod, "limits", kStorage)) {
    const std::uint64_t least = added_bytes * kMilli;
    if (!limits.contains(kStorage))
      limits[kStorage] = amount_text(
          kStorage, std::max(least, amount_of(requests.value(kStorage, Object())).value_or(0)));
  } else if (limits.contains(kStorage)) {
    if (!requests.contains(kStorage)) requests[kStorage] = limits[kStorage];
    limits.erase(kStorage);
  }
}

// The pool's own processors come first, the limit before the request. Requests then equal limits,
// as the class demands.
void guarantee(Object& container, const Object& wanted) {
  Object& resources = map_in(container, "resources");
  Object& limits = map_in(resources, "limits");
  Object& requests = map_in(resources, "requests");
  for (const char* resource : {"limits.cpu", "requests.cpu"})
    if (const Object& cpu = api::at(wanted, resource); !limits.contains("cpu") && !cpu.is_null())
      limits["cpu"] = cpu;
  if (!limits.contains("cpu")) limits["cpu"] = kGuaranteedCpu;
  for (const char* resource : {"cpu", "memory"})
    if (limits.contains(resource)) requests[resource] = limits[resource];
}

}  // namespace larder::webhook
