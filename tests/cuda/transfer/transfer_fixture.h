// An engine with pages on the fake device in this process, and a real larderd that copies in them (transfer: sidecar), with the fake driver in its library
// path. Two processes, as CUDA IPC wants it; the device's memory is the kernel's.
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

// Its memory by cuMemAlloc, or mapped by hand.
inline constexpr PageMemory kAllocated{[](std::size_t bytes) { return fake_cuda::allocate(bytes); },
                                       [](std::byte* page) { return fake_cuda::view(page); }};
inline constexpr PageMemory kByHand{[](std::size_t bytes) { return fake_cuda::map_by_hand(bytes); },
                                    [](std::byte* page) { return fake_cuda::view(page); }};

using Variables = std::map<std::string, std::string>;

// The same on the second GPU of the two that a process may see.
inline constexpr PageMemory kOnTheSecond{[](std::size_t bytes) { return fake_cuda::allocate(bytes, false, 1); },
                                         [](std::byte* page) { return fake_cuda::view(page); }};

// Variables of a larderd that is started meanwhile; this process's own are as before afterwards.
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
    for (const auto& [name, value] : before_) value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  Variables before_;
};

// `driver`: what its libcuda.so.1 is like (entries.cc); `found`: whether it has one.
inline std::unique_ptr<LarderdProcess> larderd_that_copies(Variables driver = {}, bool found = true) {
  if (found) driver["LD_LIBRARY_PATH"] = FAKE_CUDA_FOLDER;
  const Environment environment(driver);
  return std::make_unique<LarderdProcess>("16MiB", "error", LARDERD_PATH, "transfer: sidecar\n");
}

inline std::unique_ptr<EngineClient> engine_at(const LarderdProcess& larderd, const PageMemory& memory = kAllocated,
                                               const PageLayout& layout = kLayout) {
  auto engine = std::make_unique<EngineClient>(larderd.socket(), layout, copy::host_copy_engine(), "engine: made-up\n", memory);
  EXPECT_TRUE(engine->status.ok()) << engine->status.to_string();
  EXPECT_TRUE(engine->client->wait_attached(10'000).ok());
  return engine;
}

inline bool await_open(EngineClient& engine, bool wanted = true) {
  return eventually([&] { return engine.client->sidecar_copies() == wanted; }, 10'000);
}

// What its log has said by now.
inline std::string log_of(EngineClient& engine) {
  std::string all;
  while (const std::optional<std::string> line = engine.client->next_log()) all += *line + "\n";
  return all;
}

// Stores, wipes the pages, loads: whoever copies. True: every byte is right.
inline bool served(EngineClient& engine, std::uint64_t first, std::uint32_t count = 3) {
  const client::StoreResult stored = engine.store(first, count, 10'000);
  if (stored.stored != count || !engine.await_present(first, count)) return false;
  engine.engine.wipe();
  return engine.load(first, count).status == Code::kOk && engine.holds(first, count) && engine.engine.gaps_untouched();
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
  // A larderd that copies for an engine. False: it does not, in time.
  bool begin(const PageMemory& memory = kAllocated, const Variables& driver = {}) {
    larderd_ = larderd_that_copies(driver);
    engine_ = engine_at(*larderd_, memory);
    return await_open(*engine_);
  }
  // Other memory is at the place of the engine's, and nobody told; `silently`: not even its number is another.
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
