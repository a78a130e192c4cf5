// An engine with pages on the fake device in this process, and a real larderd that copies in these
// pages (transfer: sidecar), with the fake driver in its library path. CUDA IPC needs two
// processes. A file of the kernel holds the device's memory.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <memory>
#include <string>

#include "tests/component/larderd_process.h"
#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/eventually.h"
#include "tests/unit/client/engine.h"

namespace larder::test {

using client::testing_support::EngineClient;
using client::testing_support::PageLayout;
using client::testing_support::PageMemory;

inline const PageLayout kLayout{"plain", 2, 4, 16384, 0, false, 0};

// The engine's memory: from cuMemAlloc, or mapped by hand.
inline constexpr PageMemory kAllocated{[](std::size_t bytes) { return fake_cuda::allocate(bytes); },
                                       [](std::byte* page) { return fake_cuda::view(page); }};
inline constexpr PageMemory kByHand{[](std::size_t bytes) { return fake_cuda::map_by_hand(bytes); },
                                    [](std::byte* page) { return fake_cuda::view(page); }};

using Variables = std::map<std::string, std::string>;

// The same on the second of two visible GPUs.
inline constexpr PageMemory kOnTheSecond{
    [](std::size_t bytes) { return fake_cuda::allocate(bytes, false, 1); },
    [](std::byte* page) { return fake_cuda::view(page); }};

// Sets variables for a larderd that starts meanwhile; the destructor restores this process's own.
class Environment {
 public:
  explicit Environment(const Variables& set) {
    for (const auto& [name, value] : set) {
      const char* const before = ::getenv(name.c_str());
      before_[name] = before == nullptr ? "" : before;
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_)
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  Variables before_;
};

// `driver`: properties of larderd's libcuda.so.1 (entries.cc). `found`: whether larderd finds the
// library.
inline std::unique_ptr<LarderdProcess> larderd_that_copies(Variables driver = {},
                                                           bool found = true) {
  if (found) driver["LD_LIBRARY_PATH"] = FAKE_CUDA_FOLDER;
  const Environment environment(driver);
  return std::make_unique<LarderdProcess>("16MiB", "error", LARDERD_PATH, "transfer: sidecar\n");
}

inline std::unique_ptr<EngineClient> engine_at(const LarderdProcess& larderd,
                                               const PageMemory& memory = kAllocated,
                                               const PageLayout& layout = kLayout) {
  auto engine = std::make_unique<EngineClient>(larderd.socket(), layout, copy::host_copy_engine(),
                                               "engine: made-up\n", memory);
  EXPECT_TRUE(engine->status.ok()) << engine->status.to_string();
  EXPECT_TRUE(engine->client->wait_attached(10'000).ok());
  return engine;
}

inline bool await_open(EngineClient& engine, bool wanted = true) {
  return eventually([&] { return engine.client->sidecar_copies() == wanted; }, 10'000);
}

// The engine's log so far.
inline std::string log_of(EngineClient& engine) {
  std::string all;
  while (const std::optional<std::string> line = engine.client->next_log()) all += *line + "\n";
  return all;
}

// Stores, wipes the pages and loads, whoever copies. True: every byte is right.
inline bool served(EngineClient& engine, std::uint64_t first, std::uint32_t count = 3) {
  const client::StoreResult stored = engine.store(first, count, 10'000);
  if (stored.stored != count || !engine.await_present(first, count)) return false;
  engine.engine.wipe();
  return engine.load(first, count).status == Code::kOk && engine.holds(first, count) &&
         engine.engine.gaps_untouched();
}

inline std::int64_t copied(const LarderdProcess& larderd, const std::string& what) {
  return larderd.status_number({"transfer", what});
}

class TransferTest : public testing::Test {
 protected:
  ~TransferTest() override {
    engine_.reset();
    larderd_.reset();
    fake_cuda::reset();
  }
  // Starts a larderd that copies for an engine. False: larderd does not, in time.
  bool begin(const PageMemory& memory = kAllocated, const Variables& driver = {}) {
    larderd_ = larderd_that_copies(driver);
    engine_ = engine_at(*larderd_, memory);
    return await_open(*engine_);
  }
  // Puts other memory at the place of the engine's without a notice. `silently`: even the number of
  // the allocation is the same.
  void swap_memory(bool silently) {
    for (const client::LayerPages& layer : engine_->engine.pages()) {
      fake_cuda::unmap_by_hand(layer.base);
      fake_cuda::map_again(layer.base, silently);
    }
  }

  std::unique_ptr<LarderdProcess> larderd_;
  std::unique_ptr<EngineClient> engine_;
};

}  // namespace larder::test
