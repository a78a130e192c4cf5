#include "sidecar/supervisor/memory_kills.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace larder::supervisor {

std::uint64_t memory_kills_in(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string name;
  for (std::uint64_t number = 0; lines >> name >> number;)
    if (name == "oom_kill") return number;
  return 0;
}

std::uint64_t memory_kills() {
  // Control groups of version 2, then of version 1. In a container the own group is mounted at the
  // root.
  for (const char* path :
       {"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"})
    if (std::ifstream file(path); file)
      return memory_kills_in(
          std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
  return 0;
}

}  // namespace larder::supervisor
