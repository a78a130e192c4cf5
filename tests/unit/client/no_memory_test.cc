// A thread without any further memory still completes its loads. (For holds see
// hold_table_test.cc.)
#include "tests/unit/client/no_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/unit/client/copies.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client::testing_support {
static thread_local bool no_memory = false;

void set_no_memory(bool none) {
  no_memory = none;
}
}  // namespace larder::client::testing_support

#ifndef LARDER_SANITIZED  // a sanitizer has its own allocator: there these tests run with memory
void* operator new(std::size_t size) {
  void* memory =
      larder::client::testing_support::no_memory ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return larder::client::testing_support::no_memory ? nullptr : std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::PageLayout;

// Copies, and from then on this copying thread has no memory.
class LastCopyEngine final : public testing_support::HostCopies {
 public:
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const copy::PieceList& to) const override {
    Status status = HostCopies::load(slot, root, to);
    testing_support::set_no_memory(true);
    return status;
  }
};

// Has no memory for its tables.
class PoorCopyEngine final : public testing_support::HostCopies {
 public:
  Status load(std::span<const std::byte>, std::uint64_t, const copy::PieceList&) const override {
    throw std::bad_alloc();
  }
};

class NoMemoryTest : public loop::testing_support::SidecarTest {};

TEST_F(NoMemoryTest, EveryLoadCompletes) {
  start();
  const LastCopyEngine copies;
  EngineClient a(config_.socket, PageLayout{"plain", 2, 4, 16384, 0, false, 0}, copies);
  ASSERT_TRUE(a.client->wait_attached(5000).ok());
  ASSERT_EQ(a.store(0, 1).stored, 1U);
  constexpr std::size_t kLoads = 100;
  for (std::size_t i = 0; i < kLoads; ++i) ASSERT_TRUE(a.client->load(a.transfer(0, 1), 5000).ok());
  ASSERT_TRUE(wait([&] { return a.client->state().loads_running == 0; }));
  std::size_t polled = 0;
  EXPECT_TRUE(wait([&] { return (polled += a.client->poll(kLoads).size()) == kLoads; })) << polled;
}

#ifndef LARDER_SANITIZED
TEST_F(NoMemoryTest, LoadRefusedWithoutMemoryIsNotRunning) {
  start();
  EngineClient a(config_.socket, PageLayout{"plain", 2, 4, 16384, 0, false, 0});
  ASSERT_TRUE(a.client->wait_attached(5000).ok());
  Transfer transfer = a.transfer(0, 1);
  bool started = false;
  testing_support::set_no_memory(true);
  try {
    started = a.client->load(std::move(transfer), 5000).ok();
  } catch (const std::bad_alloc&) {
  }
  testing_support::set_no_memory(false);
  EXPECT_FALSE(started);
  EXPECT_EQ(a.client->state().loads_running, 0U);
}
#endif

TEST_F(NoMemoryTest, FailedLoadReleasesItsHolds) {
  start();
  const PoorCopyEngine copies;
  EngineClient a(config_.socket, PageLayout{"plain", 2, 4, 16384, 0, false, 0}, copies);
  ASSERT_TRUE(a.client->wait_attached(5000).ok());
  ASSERT_EQ(a.store(0, 1).stored, 1U);
  ASSERT_TRUE(a.await_present(0, 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(a.load(0, 1).status, Code::kInternal);
  const std::uint64_t uptime = stats().uptime_ms;
  clock_.advance_ms(500);
  ASSERT_TRUE(wait([&] { return stats().uptime_ms > uptime; })) << "a look at the table";
  EXPECT_EQ(stats().holds, 0U);
}

}  // namespace
}  // namespace larder::client
