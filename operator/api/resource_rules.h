// Rules that resources of our containers must keep, wherever a user writes them: a pod with others is refused, or is killed. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/object.h"

namespace larder::api {

struct WrongResource {
  std::string path, why;  // "limits.memory"
};

struct MemoryNeed {
  std::uint64_t bytes;    // the least limit of memory
  std::string_view what;  // needs it, in the error
  bool is_limit = false;  // where no limit is written, it is the limit
};

// The first of memory, cpu and ephemeral-storage that is no quantity, too little, or asks for more than its limit. `resources`: with
// limits and requests, or null.
std::optional<WrongResource> wrong_resource(const Object& resources, const MemoryNeed& need);

}  // namespace larder::api
