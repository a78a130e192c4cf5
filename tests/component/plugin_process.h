// The example plug-in as a process of a test's own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "sidecar/tiers/tier.h"
#include "tests/component/larderd_process.h"

namespace larder::test {

// A folder that is removed with its content.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/larder-plugin-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Ended by SIGKILL in the destructor.
class PluginProcess : public ChildProcess {
 public:
  // REQUIRES: a larderd listens at `socket`.
  PluginProcess(const std::string& socket, const std::string& folder,
                std::uint64_t most_bytes = std::uint64_t{1} << 40)
      : ChildProcess({"/usr/bin/env", "python3", EXAMPLE_PLUGIN_PATH, "--socket", socket,
                      "--folder", folder, "--size", std::to_string(most_bytes)}) {}
};

// Waits until a plug-in is ready.
inline bool ready(const tiers::Tier& tier) {
  return eventually([&] { return tier.state().takes_gets; });
}

}  // namespace larder::test
