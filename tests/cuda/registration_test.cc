// The cost of a registration for others, and registration for several devices, over a driver with
// delays and a lock.
#include "cuda/registration.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/cuda/registration_fixture.h"

namespace larder::copy::cuda {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// CUDA refuses a second device of the process the same bytes (712): they are registered already,
// for every device.
TEST_F(RegistrationTest, TwoDevicesShareOneRegistrationAndEachHasItsOwnAddresses) {
  const std::unique_ptr<Pinning> first = pin(0), second = pin(1);
  ASSERT_TRUE(all_ready(*first));
  ASSERT_TRUE(all_ready(*second));
  EXPECT_EQ(fake_cuda::registrations().size(), kSlices);
  EXPECT_NE(first->device(memory_).in_one_piece(), second->device(memory_).in_one_piece());
  EXPECT_THAT(said_.lines(), IsEmpty());
}

TEST_F(RegistrationTest, LaterDeviceReusesAndKeepsTheRegistration) {
  std::unique_ptr<Pinning> first = pin(0);
  ASSERT_TRUE(all_ready(*first));
  const std::unique_ptr<Pinning> second = pin(1);
  ASSERT_TRUE(all_ready(*second));
  first.reset();
  EXPECT_EQ(fake_cuda::counters().registered_bytes, kBytes);
  EXPECT_TRUE(all_ready(*second));
}

TEST_F(RegistrationTest, LastDeviceUnregistersInTheRegisteringContext) {
  std::unique_ptr<Pinning> first = pin(0), second = pin(1);
  ASSERT_TRUE(all_ready(*first) && all_ready(*second));
  first.reset();
  second.reset();
  EXPECT_EQ(fake_cuda::counters().registered_bytes, 0U);
}

TEST_F(RegistrationTest, EnginesOfTwoDevicesCopyFromOneArenaDirectly) {
  testing_support::DeviceChunk one(8192, 3, 0), other(8192, 3, 1);
  CudaOptions options;
  options.kernels = testing_support::fake_kernels();
  options.calibrate_strategies = {};
  options.registration = options_;
  const auto first = CudaCopyEngine::make(one.page(), options).value(),
             second = CudaCopyEngine::make(other.page(), options).value();
  const auto ready_first = first->make_ready(memory_), ready_second = second->make_ready(memory_);
  ready_first->present(kBytes);
  const std::span<std::byte> slot = memory_.first(one.slot().size());
  ASSERT_TRUE(test::eventually([&] { return first->is_pinned(slot) && second->is_pinned(slot); }));
  one.fill(1);
  const std::uint64_t root = first->store(one.list(), slot).value();
  ASSERT_TRUE(second->load(slot, root, other.list()).ok());
  EXPECT_TRUE(other.holds(1));
}

// Otherwise the driver would fault in the pages one by one, under its locks.
TEST_F(RegistrationTest, SlicesAreMappedBeforeTheDriverPinsThem) {
  const std::unique_ptr<Pinning> pinning = pin();
  ASSERT_TRUE(all_ready(*pinning));
  for (const fake_cuda::Registration& one : fake_cuda::registrations()) {
    EXPECT_EQ(one.bytes, kSlice);
    EXPECT_EQ(one.absent_bytes, 0U);
  }
}

TEST_F(RegistrationTest, CallsAreSeparatedByAPauseOfEqualLength) {
  fake_cuda::cost("register", 20'000);
  const std::unique_ptr<Pinning> pinning = pin();
  ASSERT_TRUE(all_ready(*pinning));
  const std::vector<fake_cuda::Registration> all = fake_cuda::registrations();
  ASSERT_EQ(all.size(), kSlices);
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i].begun - all[i - 1].ended, 20ms);
}

// The pause belongs to the node: it lies between any two calls of the processes that share the
// arena. Each process gets turns.
TEST_F(RegistrationTest, PauseAppliesToAllProcessesOfTheArena) {
  fake_cuda::cost("register", 40'000);
  const int told = let_other_take_turns(10ms);
  const std::unique_ptr<Pinning> pinning = pin();
  ASSERT_TRUE(all_ready(*pinning));
  std::this_thread::sleep_for(100ms);
  end_other();
  std::vector<std::chrono::steady_clock::time_point> taken;
  for (std::chrono::steady_clock::time_point at; ::read(told, &at, sizeof(at)) == sizeof(at);)
    taken.push_back(at);
  ::close(told);
  const std::vector<fake_cuda::Registration> all = fake_cuda::registrations();
  ASSERT_EQ(all.size(), kSlices);
  for (const fake_cuda::Registration& one : all)
    EXPECT_TRUE(std::ranges::none_of(
        taken, [&](const auto& at) { return at > one.begun && at < one.ended + 40ms; }));
  EXPECT_TRUE(std::ranges::any_of(taken, [&](const auto& at) {
    return at > all.front().ended && at < all.back().begun;
  })) << "the other process has its turns as well";
}

// Other processes of the node launch kernels meanwhile.
TEST_F(RegistrationTest, ContinuingProcessUnregistersWithPauses) {
  fake_cuda::cost("free", 20'000);
  std::unique_ptr<Pinning> pinning = pin();
  ASSERT_TRUE(all_ready(*pinning));
  pinning->take_back_slowly();
  const auto start = std::chrono::steady_clock::now();
  pinning.reset();
  EXPECT_GE(std::chrono::steady_clock::now() - start, 2 * kSlices * 20ms);
}

// The heartbeat of a session calls these functions.
TEST_F(RegistrationTest, HeartbeatCallsDoNotWaitForTheDriver) {
  fake_cuda::cost("register", 300'000);
  const std::unique_ptr<Pinning> pinning = pin();
  ASSERT_TRUE(test::eventually([&] { return pinning->ready_bytes() > 0; }));
  std::this_thread::sleep_for(350ms);  // during the second call
  const auto start = std::chrono::steady_clock::now();
  pinning->present(kBytes);
  const std::unique_ptr<Pinning> other = pin(1);
  static_cast<void>(pinning->device(memory_));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 100ms);
}

// Processes have the arena in common, the driver's library (pods with an arena each, which get the
// library from the node), or both.
TEST_F(RegistrationTest, OneProcessOfTheNodeRegistersAtATime) {
  const Fd other_library(::memfd_create("of another image", MFD_CLOEXEC));
  const std::string elsewhere = "/proc/self/fd/" + std::to_string(other_library.get());
  for (const auto& [arena, library] :
       {std::pair(file_, options_.turn_library), std::pair(-1, options_.turn_library),
        std::pair(file_, elsewhere), std::pair(file_, std::string("/no/such/file"))}) {
    SCOPED_TRACE(testing::Message() << arena << " " << library);
    let_other_register(arena, library);
    const std::unique_ptr<Pinning> pinning = pin();
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(fake_cuda::counters().registered_bytes, 0U);
    end_other();
    EXPECT_TRUE(all_ready(*pinning)) << "the turn goes with the process that had it";
    EXPECT_THAT(said_.lines(), IsEmpty());
  }
}

TEST_F(RegistrationTest, TurnLibraryDefaultsToTheDriverLibrary) {
  options_.turn_library.clear();
  const std::string library = (*Driver::find())->file();
  EXPECT_THAT(library, HasSubstr("/libcuda.so"));
  let_other_register(-1, library);
  const std::unique_ptr<Pinning> pinning = pin();
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(fake_cuda::counters().registered_bytes, 0U);
  end_other();
  EXPECT_TRUE(all_ready(*pinning));
}

// A process with several larderds.
TEST_F(RegistrationTest, TwoArenasOfOneProcessTakeTurnsToo) {
  Turn one(-1, options_.turn_library), other(-1, options_.turn_library);
  EXPECT_TRUE(one.take());
  EXPECT_FALSE(other.take());
  EXPECT_FALSE(other.taken());
  one.give_back();
  EXPECT_TRUE(other.take());
}

// The other process is stopped, or hostile.
// covers F-038
TEST_F(RegistrationTest, StuckTurnIsAwaitedOnceOnly) {
  options_.turn_wait = 50ms;
  let_other_register(file_, options_.turn_library);
  const std::unique_ptr<Pinning> pinning = pin();
  EXPECT_TRUE(all_ready(*pinning));
  EXPECT_THAT(
      said_.lines(),
      ElementsAre(HasSubstr("warning another process has registered memory with CUDA for 50 ms")));
}

TEST_F(RegistrationTest, DestructorDoesNotWaitForATurn) {
  let_other_register(file_, options_.turn_library);
  std::unique_ptr<Pinning> pinning = pin();
  std::this_thread::sleep_for(20ms);
  const auto start = std::chrono::steady_clock::now();
  pinning.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
}

TEST_F(RegistrationTest, ForeignRegistrationIsUsedAndLeftInPlace) {
  const ContextPtr context = DeviceContext::of(fake_cuda::allocate(1)).value();
  {
    const ContextScope scope(context->driver(), context->handle());
    ASSERT_EQ(context->driver()->mem_host_register(memory_.data() + kSlice, kSlice,
                                                   kHostPortable | kHostDeviceMap),
              kSuccess);
  }
  {
    const std::unique_ptr<Pinning> pinning = pin();
    EXPECT_TRUE(all_ready(*pinning));
  }
  EXPECT_EQ(fake_cuda::counters().registered_bytes, kSlice);
}

TEST_F(RegistrationTest, ForeignRegistrationsWithAGapDoNotCoverASlice) {
  const ContextPtr context = DeviceContext::of(fake_cuda::allocate(1)).value();
  {
    const ContextScope scope(context->driver(), context->handle());
    for (const std::size_t at : {kSlice, 2 * kSlice - 4096})
      ASSERT_EQ(context->driver()->mem_host_register(memory_.data() + at, 4096,
                                                     kHostPortable | kHostDeviceMap),
                kSuccess);
  }
  const std::unique_ptr<Pinning> pinning = pin();
  EXPECT_TRUE(test::eventually([&] { return pinning->gave_up(); }));
  EXPECT_EQ(pinning->ready_bytes(), kSlice);
}

TEST_F(RegistrationTest, PartlyForeignSliceEndsRegistrationWithReason) {
  const ContextPtr context = DeviceContext::of(fake_cuda::allocate(1)).value();
  {
    const ContextScope scope(context->driver(), context->handle());
    ASSERT_EQ(context->driver()->mem_host_register(memory_.data() + kSlice, 4096,
                                                   kHostPortable | kHostDeviceMap),
              kSuccess);
  }
  const std::unique_ptr<Pinning> pinning = pin();
  EXPECT_TRUE(test::eventually([&] { return pinning->gave_up(); }));
  EXPECT_EQ(pinning->ready_bytes(), kSlice);
  EXPECT_THAT(said_.lines(), ElementsAre(HasSubstr("another library of this process")));
}

// The log gives the reason of the driver's code, which no limit of the process can cause.
// covers F-033
TEST_F(RegistrationTest, RefusalReasonFollowsTheDriverCode) {
  constexpr int kUnknown = 999;
  for (const auto& [code, words] :
       {std::pair(kOutOfMemory, "no memory for the driver's tables"),
        std::pair(kNotSupported, "confidential computing"),
        std::pair(kNotPermitted, "confidential computing"), std::pair(kInvalidValue, "gVisor"),
        std::pair(kOperatingSystem, "operating system"), std::pair(kUnknown, "gives no reason")}) {
    SCOPED_TRACE(code);
    said_.clear();
    fake_cuda::fail("cuMemHostRegister", 2, code);
    const std::unique_ptr<Pinning> pinning = pin();
    ASSERT_TRUE(test::eventually([&] { return pinning->gave_up() && !said_.lines().empty(); }));
    EXPECT_THAT(said_.lines(),
                ElementsAre(AllOf(
                    HasSubstr("warning the arena cannot be registered with CUDA beyond 0 MiB"),
                    HasSubstr(words), HasSubstr(std::to_string(code)),
                    testing::Not(HasSubstr("MEMLOCK")))));
    fake_cuda::forget_faults();
  }
}

// An error of one GPU does not end the registration of the arena.
// covers F-034
TEST_F(RegistrationTest, LostContextLeavesRegistrationToTheNextDevice) {
  for (const int code :
       {kIllegalAddress, 719 /* a kernel failed */, kInvalidContext, kUncorrectableMemory}) {
    SCOPED_TRACE(code);
    said_.clear();
    fake_cuda::fail("cuMemHostRegister", 2, code, true);
    const std::unique_ptr<Pinning> first = pin(0), second = pin(1);
    EXPECT_TRUE(all_ready(*second));
    EXPECT_TRUE(test::eventually([&] { return first->gave_up(); }));
    EXPECT_FALSE(second->gave_up());
    EXPECT_THAT(said_.lines(), ElementsAre(HasSubstr("warning a GPU's context is lost")));
    fake_cuda::forget_faults();
  }
}

TEST_F(RegistrationTest, DeviceAfterAllContextsWereLostRegisters) {
  fake_cuda::fail("cuMemHostRegister", 1, kIllegalAddress, true);
  const std::unique_ptr<Pinning> first = pin(0);
  EXPECT_TRUE(test::eventually([&] { return first->gave_up(); }));
  const std::unique_ptr<Pinning> second = pin(1);
  EXPECT_TRUE(all_ready(*second));
}

// covers F-033
TEST_F(RegistrationTest, DeviceAfterARefusalLearnsTheReason) {
  fake_cuda::fail("cuMemHostRegister", 2, kNotSupported);
  const std::unique_ptr<Pinning> first = pin(0);
  ASSERT_TRUE(test::eventually([&] { return first->gave_up(); }));
  const std::unique_ptr<Pinning> second = pin(1);
  ASSERT_TRUE(test::eventually([&] { return second->gave_up(); }));
  EXPECT_EQ(second->ready_bytes(), kSlice) << "the registered memory serves the copy";
  EXPECT_TRUE(second->not_allowed());
  EXPECT_EQ(said_.lines().size(), 2U);
}

// Without registration the memory that the driver calls pinned is managed memory: kernels would
// fetch it fault by fault.
// covers F-037
TEST_F(RegistrationTest, GpuWithoutRegistrationSupportUsesCopyEngines) {
  testing_support::DeviceChunk chunk(8192, 3);
  CudaOptions options;
  options.kernels = testing_support::fake_kernels();
  options.calibrate_strategies = {};
  options.method = Method::kKernel;
  const auto engine = CudaCopyEngine::make(chunk.page(), options).value();
  fake_cuda::fail("cuMemHostRegister", 1, kNotSupported);
  const auto ready = engine->make_ready(memory_);
  ready->present(kBytes);
  ASSERT_TRUE(test::eventually(
      [&] { return engine->strategy().kind == protocol::CopyStrategy::Kind::kNotRegistered; }));
  chunk.fill(1);
  const std::uint64_t root = engine->store(chunk.list(), chunk.slot()).value();
  chunk.fill(2);
  EXPECT_TRUE(engine->load(chunk.slot(), root, chunk.list()).ok());
  EXPECT_TRUE(chunk.holds(1));
  EXPECT_EQ(fake_cuda::counters().kernels, 0U);
}

TEST_F(RegistrationTest, SlowRegistrationReportsProgress) {
  options_.progress_every = 20ms;
  fake_cuda::cost("register", 30'000);
  const std::unique_ptr<Pinning> pinning = pin();
  ASSERT_TRUE(all_ready(*pinning));
  ASSERT_TRUE(test::eventually([&] { return said_.lines().size() >= kSlices; }));
  EXPECT_THAT(said_.lines(),
              Contains(AllOf(HasSubstr("info registered 0 MiB of 0 MiB with CUDA in "),
                             HasSubstr("until then"))));
  EXPECT_THAT(said_.lines().back(),
              AllOf(HasSubstr("the longest call "), testing::Not(HasSubstr("until then"))));
}

// One in a few chunks of 80 MiB lies across a border.
TEST_F(RegistrationTest, ChunkAcrossSlicesIsCopiedDirectlyWithOnlyBorderPiecesSplit) {
  for (const Method method : {Method::kBatch, Method::kKernel}) {
    // 160,000 bytes over slices of 65,536: two pieces lie across a border.
    testing_support::DeviceChunk chunk(40'000, 4);
    CudaOptions options;
    options.kernels = testing_support::fake_kernels();
    options.calibrate_strategies = {};
    options.method = method;
    options.registration = options_;
    const auto engine = CudaCopyEngine::make(chunk.page(), options).value();
    const auto ready = engine->make_ready(memory_);
    ready->present(kBytes);
    const std::span<std::byte> slot = memory_.first(chunk.slot().size());
    ASSERT_TRUE(test::eventually([&] { return engine->is_pinned(slot); }));
    const std::uint64_t pinned = fake_cuda::counters().pinned_bytes;
    chunk.fill(1);
    const std::uint64_t root = engine->store(chunk.list(), slot).value();
    EXPECT_LE(fake_cuda::counters().pinned_bytes - pinned, 2 * PinnedBuffer::kLeastBytes)
        << "tables, and no staging memory";
    std::vector<std::byte> host(chunk.slot().size());
    chunk.fill(2);
    ASSERT_TRUE(engine->load(slot, root, chunk.list()).ok());
    EXPECT_TRUE(chunk.holds(1));
  }
}

}  // namespace
}  // namespace larder::copy::cuda
