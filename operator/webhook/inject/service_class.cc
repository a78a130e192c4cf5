#include "operator/webhook/inject/service_class.h"

#include <algorithm>

#include "operator/webhook/inject/pod_form.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr const char* kCpu = "1";

bool is_guaranteed_container(const Object& container) {
  for (const char* resource : {"cpu", "memory"}) {
    const std::string path = std::string("resources.limits.") + resource;
    const Object& limit = api::at(container, path);
    const Object& request = api::at(container, std::string("resources.requests.") + resource);
    if (limit.is_null() || (!request.is_null() && request != limit)) return false;
  }
  return true;
}

}  // namespace

bool is_guaranteed(const Object& pod) {
  for (const char* list : {"spec.containers", "spec.initContainers"})
    if (const Object& containers = api::at(pod, list); !std::ranges::all_of(containers, is_guaranteed_container)) return false;
  return true;
}

void guarantee(Object& container, const Object& wanted) {
  Object& resources = map_in(container, "resources");
  Object& limits = map_in(resources, "limits");
  Object& requests = map_in(resources, "requests");
  for (const char* resource : {"limits.cpu", "requests.cpu"})
    if (const Object& cpu = api::at(wanted, resource); !limits.contains("cpu") && !cpu.is_null()) limits["cpu"] = cpu;
  if (!limits.contains("cpu")) limits["cpu"] = kCpu;
  for (const char* resource : {"cpu", "memory"})
    if (limits.contains(resource)) requests[resource] = limits[resource];
}

}  // namespace larder::webhook
