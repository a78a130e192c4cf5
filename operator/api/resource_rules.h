// Rules for resources of Larder's containers. The API server refuses, or the kernel kills, a pod
// that breaks the rules. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/object.h"

namespace larder::api {

inline constexpr std::uint64_t kMi = 1ULL << 20;

struct WrongResource {
  std::string path, why;  // "limits.memory"
};

struct MemoryNeed {
  std::uint64_t bytes;    // the least limit of memory
  std::string_view what;  // the error's name for the part that needs the memory
  bool is_limit = false;  // `bytes` is the limit if the user writes no limit
};

// The first of memory, cpu and ephemeral-storage that is no quantity, is too small, or has a
// request above the limit. `resources`: an object with limits and requests, or null.
std::optional<WrongResource> wrong_resource(const Object& resources, const MemoryNeed& need);

}  // namespace larder::api
