// CudaCopyEngineTest: an engine over the fake driver without a measurement of the ways, and the
// engine's log.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "cuda/cuda_copy_engine.h"
#include "tests/cuda/device_chunk.h"
#include "tests/cuda/said.h"

namespace larder::copy::cuda {

using testing_support::DeviceChunk;

struct Way {
  const char* name;
  Method method;
  bool pinned;
};

class CudaCopyEngineTest : public testing::Test {
 protected:
  ~CudaCopyEngineTest() override {
    engine_.reset();
    fake_cuda::reset();
  }
  CudaCopyEngine& make(Method method, const std::byte* page) {
    CudaOptions options = the_options();
    options.method = method;
    engine_ = CudaCopyEngine::make(page, options).value();
    return *engine_;
  }
  CudaOptions the_options() const {
    CudaOptions options;
    options.calibrate_strategies = {};
    options.kernels = testing_support::fake_kernels();
    options.log = said_.log();
    return options;
  }
  static std::vector<Way> strategies() {
    return {{"kernel", Method::kKernel, true},
            {"batch", Method::kBatch, true},
            {"kernel staged", Method::kKernel, false},
            {"batch staged", Method::kBatch, false}};
  }
  // After a failed call the pages belong to their next owner: later writes by the test must stay.
  static void expect_nothing_late(DeviceChunk& chunk) {
    chunk.fill(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(chunk.holds(2));
  }
  std::unique_ptr<CudaCopyEngine> engine_;
  testing_support::Said said_;
};

}  // namespace larder::copy::cuda
