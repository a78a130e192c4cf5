#include "tests/bench/gpu_arms.h"

#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <string>

#include "cuda/pinning.h"
#include "sidecar/base/log.h"
#include "sidecar/memory/prefaulter.h"
#include "tests/bench/gpu_launches.h"
#include "tests/bench/gpu_plain_moves.h"

using namespace larder;
using bench::Direction;
using bench::GpuField;
using bench::GpuMoves;
using Clock = std::chrono::steady_clock;

struct gpu_field {
  std::unique_ptr<GpuField> impl;
};
struct gpu_moves {
  std::unique_ptr<GpuMoves> impl;
};

namespace {

constexpr auto kPatience = std::chrono::seconds(120);

std::string why, strategy;
std::unique_ptr<copy::testing_support::RealDevice> device;
std::unique_ptr<bench::PacedMoves> paced;
std::unique_ptr<bench::Launches> launches;

constexpr int kFailed = -1, kWrongBytes = -2;

// No exception leaves: Python calls.
template <typename Work>
int guarded(Work work) {
  Status status;
  try {
    status = work();
  } catch (const std::exception& error) {
    status = {Code::kInternal, error.what()};
  }
  why = status.text();
  if (status.ok()) return 0;
  return status.code() == Code::kDataLoss ? kWrongBytes : kFailed;
}

Direction direction_of(int store) {
  return store != 0 ? Direction::kStore : Direction::kLoad;
}

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One of several mappings of a file.
class Mapping {
 public:
  Mapping(int file, std::uint64_t bytes)
      : memory_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)),
        bytes_(bytes) {}
  ~Mapping() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<std::byte> bytes() const {
    return memory_ == MAP_FAILED ? std::span<std::byte>()
                                 : std::span(static_cast<std::byte*>(memory_), bytes_);
  }

 private:
  void* const memory_;
  const std::uint64_t bytes_;
};

Status waited(const auto& done, const std::string& what) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!done()) {
    if (Clock::now() > deadline) return {Code::kDeadlineExceeded, what + " took too long"};
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return {};
}

Status touch(std::span<std::byte> memory, std::uint64_t page_bytes, double& seconds) {
  const Clock::time_point start = Clock::now();
  memory::Prefaulter toucher(memory, page_bytes);
  const Status status =
      waited([&] { return toucher.touched_bytes() == memory.size() || toucher.problem() != 0; },
             "touching the memory");
  seconds = since(start);
  return toucher.problem() == 0 ? status
                                : Status::from_errno(toucher.problem(), "touching the memory");
}

// By the product's own thread, in the product's slices and with its pauses.
Status enroll(std::span<std::byte> memory, double& seconds) {
  std::byte* const page = device->allocate(4096);  // for the thread's context
  if (page == nullptr) return {Code::kResourceExhausted, "the GPU has no memory left"};
  const Result<copy::cuda::ContextPtr> context = copy::cuda::DeviceContext::of(page);
  device->release(page);
  if (!context.ok()) return context.status();
  std::string said;  // by the thread that goes with `pinning`
  Status status;
  {
    const Clock::time_point start = Clock::now();
    copy::cuda::Pinning pinning(*context, memory,
                                [&](std::string_view level, std::string_view text) {
                                  if (level != "info")
                                    said = text;  // the progress of the registration
                                });
    pinning.present(memory.size());
    status = waited([&] { return pinning.ready_bytes() >= memory.size() || pinning.gave_up(); },
                    "registering the memory");
    seconds = since(start);
  }
  return said.empty() ? status : Status(Code::kUnavailable, said);
}

Status touch_and_enroll(std::uint64_t bytes, std::uint64_t page_bytes, double& touch_s,
                        double& register_s) {
  const auto size_bits = static_cast<unsigned>(std::countr_zero(page_bytes)) << MFD_HUGE_SHIFT;
  const int file =
      ::memfd_create("gpu-bench", MFD_CLOEXEC | (page_bytes > 4096 ? MFD_HUGETLB | size_bits : 0U));
  if (file < 0) return Status::from_errno(errno, "memfd_create");
  const bool sized = ::ftruncate(file, static_cast<off_t>(bytes)) == 0;
  const Mapping larderds(file, bytes), engines(file, bytes);
  ::close(file);
  if (!sized || larderds.bytes().empty() || engines.bytes().empty())
    return {Code::kResourceExhausted, "no " + std::to_string(bytes >> 20) + " MiB of pages of " +
                                          std::to_string(page_bytes >> 10) +
                                          " KiB: " + std::strerror(errno)};
  if (Status status = touch(larderds.bytes(), page_bytes, touch_s); !status.ok()) return status;
  return enroll(engines.bytes(), register_s);
}

Result<std::unique_ptr<GpuMoves>> moves_of(GpuField& field, std::string_view method,
                                           unsigned blocks, std::uint64_t plain_bytes) {
  using copy::cuda::Method;
  if (method == "auto") return bench::engine_moves(field, Method::kAuto, blocks);
  if (method == "batch") return bench::engine_moves(field, Method::kBatch, blocks);
  if (method == "kernel") return bench::engine_moves(field, Method::kKernel, blocks);
  if (method == "bare kernel") return bench::bare_kernel_moves(field, blocks);
  if (method == "plain") return bench::driver_moves(field, plain_bytes);
  return Status(Code::kInvalidArgument, "no method " + std::string(method));
}

}  // namespace

extern "C" {

const char* gpu_why(void) {
  return why.c_str();
}

const char* gpu_open(void) {
  base::set_log_level(base::LogLevel::kError);
  if (device == nullptr) device = copy::testing_support::RealDevice::open(why);
  return device == nullptr ? nullptr : device->name().c_str();
}

uint64_t gpu_arena_bytes(uint64_t bytes, uint64_t piece_bytes, uint64_t chunk_bytes) {
  return GpuField::arena_bytes(bytes, piece_bytes, chunk_bytes);
}

gpu_field* gpu_field_make(uint64_t bytes, uint64_t piece_bytes, uint64_t chunk_bytes, int arena,
                          int by_hand) {
  auto made = std::make_unique<gpu_field>();
  const int failed = guarded([&]() -> Status {
    Result<std::unique_ptr<GpuField>> field =
        GpuField::make(*device, bytes, piece_bytes, chunk_bytes, arena, by_hand != 0);
    if (field.ok()) made->impl = std::move(field).value();
    return field.status();
  });
  return failed == 0 ? made.release() : nullptr;
}

void gpu_field_drop(gpu_field* field) {
  delete field;
}

void* gpu_field_pages(gpu_field* field) {
  return field->impl->pages();
}

int gpu_field_fill(gpu_field* field) {
  return guarded([&] { return field->impl->fill(); });
}

int gpu_field_scribble(gpu_field* field) {
  return guarded([&] { return field->impl->scribble(); });
}

int gpu_field_check(gpu_field* field) {
  return guarded([&] { return field->impl->check(); });
}

gpu_moves* gpu_moves_make(gpu_field* field, const char* method, unsigned kernel_blocks,
                          uint64_t plain_bytes) {
  auto made = std::make_unique<gpu_moves>();
  const int failed = guarded([&]() -> Status {
    Result<std::unique_ptr<GpuMoves>> moves =
        moves_of(*field->impl, method, kernel_blocks, plain_bytes);
    if (moves.ok()) made->impl = std::move(moves).value();
    return moves.status();
  });
  return failed == 0 ? made.release() : nullptr;
}

void gpu_moves_drop(gpu_moves* moves) {
  delete moves;
}

const char* gpu_moves_way(gpu_moves* moves) {
  strategy = moves->impl->strategy();
  return strategy.c_str();
}

int gpu_one_way(gpu_moves* moves, int store, unsigned callers, double* seconds) {
  return guarded([&]() -> Status {
    const Result<double> took = bench::one_way(*moves->impl, direction_of(store), callers);
    if (took.ok()) *seconds = *took;
    return took.status();
  });
}

int gpu_by_events(gpu_moves* moves, int store, double* seconds) {
  return guarded([&]() -> Status {
    const Result<double> took = moves->impl->by_events(direction_of(store));
    if (took.ok()) *seconds = *took;
    return took.status();
  });
}

int gpu_both_ways(gpu_moves* moves, unsigned callers, size_t copies, double* loads,
                  size_t* load_count, double* stores, size_t* store_count) {
  return guarded([&]() -> Status {
    const Result<bench::BothEnds> ends = bench::both_ways(*moves->impl, callers, copies);
    if (!ends.ok()) return ends.status();
    std::copy(ends->loads.begin(), ends->loads.end(), loads);
    std::copy(ends->stores.begin(), ends->stores.end(), stores);
    *load_count = ends->loads.size();
    *store_count = ends->stores.size();
    return {};
  });
}

int gpu_pace(gpu_moves* moves, int store, double bytes_per_s, unsigned callers) {
  return guarded([&]() -> Status {
    if (paced != nullptr)
      return {Code::kFailedPrecondition, "copies run in the background already"};
    paced = std::make_unique<bench::PacedMoves>(*moves->impl, direction_of(store), bytes_per_s,
                                                callers);
    return {};
  });
}

int gpu_rest(double* bytes_per_s) {
  return guarded([&]() -> Status {
    if (paced == nullptr) return {Code::kFailedPrecondition, "no copies run in the background"};
    const std::unique_ptr<bench::PacedMoves> ended = std::move(paced);
    const Result<double> rate = ended->end();
    if (rate.ok()) *bytes_per_s = *rate;
    return rate.status();
  });
}

int gpu_launches_begin(void) {
  return guarded([&]() -> Status {
    if (launches != nullptr) return {Code::kFailedPrecondition, "launches go on already"};
    Result<std::unique_ptr<bench::Launches>> begun = bench::Launches::begin(*device);
    if (begun.ok()) launches = std::move(begun).value();
    return begun.status();
  });
}

int gpu_launches_end(double* median_us, double* rare_us, double* worst_us) {
  return guarded([&]() -> Status {
    if (launches == nullptr) return {Code::kFailedPrecondition, "no launches go on"};
    const std::unique_ptr<bench::Launches> ended = std::move(launches);
    const Result<bench::LaunchTimes> times = ended->end();
    if (!times.ok()) return times.status();
    *median_us = times->median_us;
    *rare_us = times->rare_us;
    *worst_us = times->worst_us;
    return {};
  });
}

int gpu_host_alloc(uint64_t bytes, double* seconds) {
  return guarded([&]() -> Status {
    const copy::cuda::Driver& driver = device->driver();
    void* memory = nullptr;
    const Clock::time_point start = Clock::now();
    const copy::cuda::ResultCode code = driver->mem_host_alloc(
        &memory, bytes, copy::cuda::kHostPortable | copy::cuda::kHostDeviceMap);
    *seconds = since(start);
    if (code == copy::cuda::kSuccess) driver->mem_free_host(memory);
    return driver.status(code, "cuMemHostAlloc");
  });
}

int gpu_touch_and_register(uint64_t bytes, uint64_t page_bytes, double* touch_seconds,
                           double* register_seconds) {
  return guarded(
      [&] { return touch_and_enroll(bytes, page_bytes, *touch_seconds, *register_seconds); });
}

}  // extern "C"
