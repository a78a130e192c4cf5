// A real Sidecar with a disk tier in a directory of its own, and one engine of one namespace.
#pragma once

#include <memory>
#include <string>

#include "tests/unit/loop/chunk_engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {

class SidecarWithDiskTest : public SidecarTest {
 protected:
  SidecarWithDiskTest() {
    char name[] = "/tmp/larder-ipc-disk-XXXXXX";
    disk_ = ::mkdtemp(name);
    config_.disk.path = disk_;
    config_.disk.size_bytes = 34 << 20;
  }
  ~SidecarWithDiskTest() override {
    stop();
    std::filesystem::remove_all(disk_);
  }

  void attach(std::uint64_t capabilities = protocol::kCapabilityResidency) {
    client_ = std::make_unique<ChunkEngine>(config_.socket, fingerprint_, capabilities);
    handle_ = client_->handle();
  }

  const std::string fingerprint_ = "engine: vllm\ndtype: bfloat16\n";
  std::string disk_;
  base::MonotonicClock real_;
  std::unique_ptr<ChunkEngine> client_;
  std::uint32_t handle_ = 0;
};

}  // namespace larder::loop::testing_support
