// bench gpu: what copies between KV pages on a GPU and a registered arena reach, against large copies and one copy a piece in the same run.
//
// The arena is shared memory, registered as an engine's is. Every load is verified by the engine itself, and once by reading pages back before
// a figure counts. What it costs to ask for a load (submit) is measured over a larderd, for pages in host memory too, which is all that is measured
// without a GPU.
//
// Usage: gpu_bench COMMIT [DIRECTORY of the JSON]
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cuda/cuda_copy_engine.h"
#include "shim/protocol/checksum.h"
#include "tests/bench/report.h"
#include "tests/bench/submit_arm.h"
#include "tests/cuda/real_device.h"

namespace {

using namespace larder;
using namespace larder::copy;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kBytes = 2ULL << 30;  // of pages in all
constexpr std::uint64_t kChunkBytes = 64ULL << 20;
constexpr int kRounds = 7;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "gpu_bench: %s\n", why.c_str());
  std::exit(1);
}

double median_rate(const std::function<void()>& work, std::uint64_t bytes) {
  std::vector<double> rates;
  work();
  for (int i = 0; i < kRounds; ++i) {
    const auto start = Clock::now();
    work();
    rates.push_back(static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - start).count() / 1e9);
  }
  return bench::median(rates);
}

// Pages in the order of a shuffled block table, and slots for them in an arena.
class Field {
 public:
  Field(testing_support::RealDevice& device, std::uint64_t piece_bytes) : device_(device), piece_bytes_(piece_bytes) {
    pages_ = device.allocate(kBytes);
    const std::uint64_t slot_bytes = protocol::slot_bytes(kChunkBytes, piece_bytes);
    arena_bytes_ = slot_bytes * (kBytes / kChunkBytes);
    void* const arena = ::mmap(nullptr, arena_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pages_ == nullptr || arena == MAP_FAILED) fail("too little memory for 2 GiB on both sides");
    arena_ = static_cast<std::byte*>(arena);
    const std::uint64_t pieces = kBytes / piece_bytes;
    for (std::uint64_t i = 0; i < pieces; ++i) pieces_.push_back(pages_ + (i * 4099 + 17) % pieces * piece_bytes);
    for (std::uint64_t at = 0; at < arena_bytes_; at += slot_bytes) slots_.push_back({arena_ + at, slot_bytes});
  }
  ~Field() { ::munmap(arena_, arena_bytes_); }

  std::span<std::byte> arena() const { return {arena_, arena_bytes_}; }
  const std::byte* page() const { return pages_; }
  std::byte* pages() const { return pages_; }
  const std::vector<std::byte*>& pieces() const { return pieces_; }
  void fill() {
    std::vector<std::uint64_t> bytes(kChunkBytes / 8);
    for (std::uint64_t at = 0; at < kBytes; at += kChunkBytes) {
      for (std::uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = (at + i) * 0x9e3779b97f4a7c15ULL;
      if (!device_.write(pages_ + at, bytes.data(), kChunkBytes)) fail("the pages cannot be filled");
    }
  }
  // The pages hold what fill() wrote.
  void check() {
    std::vector<std::uint64_t> bytes(kChunkBytes / 8);
    for (std::uint64_t at = 0; at < kBytes; at += kChunkBytes) {
      if (!device_.read(bytes.data(), pages_ + at, kChunkBytes)) fail("the pages cannot be read");
      for (std::uint64_t i = 0; i < bytes.size(); ++i)
        if (bytes[i] != (at + i) * 0x9e3779b97f4a7c15ULL) fail("a byte on the pages is wrong");
    }
  }
  PieceList chunk(std::size_t number) const {
    const std::size_t each = kChunkBytes / piece_bytes_;
    return {std::span(pieces_).subspan(number * each, each), piece_bytes_};
  }
  const std::vector<std::span<std::byte>>& slots() const { return slots_; }

 private:
  testing_support::RealDevice& device_;
  const std::uint64_t piece_bytes_;
  std::byte* pages_ = nullptr;
  std::byte* arena_ = nullptr;
  std::uint64_t arena_bytes_ = 0;
  std::vector<std::byte*> pieces_;
  std::vector<std::span<std::byte>> slots_;
};

struct Arm {
  std::string name;
  cuda::Method method;
  unsigned blocks;
};

struct Rates {
  double load, store;
};

Rates run(Field& field, const Arm& arm) {
  cuda::CudaOptions options;
  options.method = arm.method;
  options.kernel_blocks = arm.blocks;
  options.pin_span_bytes = field.arena().size();
  options.log = [](std::string_view level, std::string_view text) {
    if (level != "info") fail(std::string(text));
    std::printf("%s\n", std::string(text).c_str());
  };
  const std::unique_ptr<cuda::CudaCopyEngine> engine = cuda::CudaCopyEngine::make(field.page(), options).value();
  const std::unique_ptr<ReadyMemory> ready = engine->make_ready(field.arena());
  ready->present(field.arena().size());
  while (!engine->is_pinned(field.arena().last(4096))) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  field.fill();
  std::vector<std::uint64_t> roots(field.slots().size());
  const double store = median_rate(
      [&] {
        for (std::size_t i = 0; i < roots.size(); ++i) {
          const Result<std::uint64_t> root = engine->store(field.chunk(i), field.slots()[i]);
          if (!root.ok()) fail(root.status().to_string());
          roots[i] = *root;
        }
      },
      kBytes);
  const double load = median_rate(
      [&] {
        for (std::size_t i = 0; i < roots.size(); ++i)
          if (Status status = engine->load(field.slots()[i], roots[i], field.chunk(i)); !status.ok()) fail(status.to_string());
      },
      kBytes);
  field.check();
  return {load, store};
}

// One call of the driver each, of `each` bytes: what a plain loop of copies reaches. With all bytes in one it is the ceiling.
Rates plain(testing_support::RealDevice& device, Field& field, std::uint64_t each) {
  const cuda::Driver& driver = device.driver();
  cuda::Handle stream = nullptr;
  if (driver->stream_create_with_priority(&stream, cuda::kStreamNonBlocking, 0) != cuda::kSuccess ||
      driver->mem_host_register(field.arena().data(), field.arena().size(), cuda::kHostPortable) != cuda::kSuccess)
    fail("no stream, or the arena cannot be registered");
  const auto copy = [&](bool to_device) {
    const auto host = reinterpret_cast<cuda::DevicePtr>(field.arena().data());
    for (std::uint64_t at = 0; at < kBytes; at += each) {
      const auto page = reinterpret_cast<cuda::DevicePtr>(field.pages()) + at;
      if (driver->memcpy_async(to_device ? page : host + at, to_device ? host + at : page, each, stream) != cuda::kSuccess)
        fail("cuMemcpyAsync");
    }
    if (driver->stream_synchronize(stream) != cuda::kSuccess) fail("cuStreamSynchronize");
  };
  const Rates rates{median_rate([&] { copy(true); }, kBytes), median_rate([&] { copy(false); }, kBytes)};
  driver->mem_host_unregister(field.arena().data());
  driver->stream_destroy(stream);
  return rates;
}

// Figures of one kind of memory, by chunks; nothing is added where it cannot be measured, which is said.
void add_submits(bench::Report& report, bench::SubmitArm& arm, std::byte* pages, const std::string& device,
                 const std::string& commit) {
  if (pages == nullptr || !arm.attach(pages))
    return static_cast<void>(std::printf("submit, %s: no memory, or no larderd\n", device.c_str()));
  for (const std::uint32_t chunks : {1U, 16U, bench::SubmitArm::kMostChunks}) {
    const std::optional<double> us = arm.median_us(chunks);
    if (!us) fail("a load failed");
    const double pieces = chunks * bench::SubmitArm::kLayers * bench::SubmitArm::kBlocks;
    std::printf("submit, pages in %s, commit %s: %5.0f pieces %6.2f us\n", device.c_str(), commit.c_str(), pieces, *us);
    if (chunks == bench::SubmitArm::kMostChunks)
      report.add_goal(device == "host memory" ? "gpu.submit_host_us" : "gpu.submit_us", *us, "<=", 5);
  }
}

// A directory that goes with it.
class Folder {
 public:
  Folder() {
    if (::mkdtemp(path_.data()) == nullptr) fail("no directory in /dev/shm");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/dev/shm/larder-gpu-bench-XXXXXX";
};

}  // namespace

int main(int argc, char** argv) {
  const std::string commit = argc > 1 ? argv[1] : "";
  bench::Report report("gpu");
  const Folder folder;
  bench::SubmitArm submits(folder.path());
  std::vector<std::byte> pages(bench::SubmitArm::kPageBytes);
  add_submits(report, submits, pages.data(), "host memory", commit);
  std::string why;
  const auto device = testing_support::RealDevice::open(why);
  if (device == nullptr) {
    std::printf("on a GPU not measured: %s\n", why.c_str());
    return report.finish(argc > 2 ? argv[2] : ".") ? 0 : 1;
  }
  std::printf("%s, commit %s\n", device->name().c_str(), commit.c_str());
  add_submits(report, submits, device->allocate(bench::SubmitArm::kPageBytes), device->name(), commit);
  const auto row = [&](std::uint64_t piece_bytes, const std::string& what, const Rates& rates, const Rates& ceiling) {
    report.add_row({{"piece KiB", static_cast<double>(piece_bytes >> 10)},
                    {"way", what},
                    {"load GB/s", rates.load},
                    {"of ceiling", rates.load / ceiling.load},
                    {"store GB/s", rates.store},
                    {"of its", rates.store / ceiling.store},
                    {"device", device->name()},
                    {"commit", commit}});
  };
  for (const std::uint64_t piece_bytes : {16ULL << 10, 32ULL << 10, 2ULL << 20}) {
    Field field(*device, piece_bytes);
    const Rates ceiling = plain(*device, field, kBytes), loop = plain(*device, field, piece_bytes);
    row(piece_bytes, "one large copy", ceiling, ceiling);
    row(piece_bytes, "a call a piece", loop, ceiling);
    const Rates batch = run(field, {"batch", cuda::Method::kBatch, 8});
    row(piece_bytes, "batch", batch, ceiling);
    if (piece_bytes >= 2 << 20) report.add_goal("gpu.g1_load", batch.load / ceiling.load, ">=", 0.98);
    if (cuda::built_in_kernels().empty()) continue;
    const Rates four = run(field, {"kernel", cuda::Method::kKernel, 4}), eight = run(field, {"kernel", cuda::Method::kKernel, 8});
    row(piece_bytes, "kernel, 4 SMs", four, ceiling);
    row(piece_bytes, "kernel, 8 SMs", eight, ceiling);
    row(piece_bytes, "auto", run(field, {"auto", cuda::Method::kAuto, 8}), ceiling);
    if (piece_bytes >= 2 << 20) continue;
    const std::string size = std::to_string(piece_bytes >> 10);
    report.add_goal("gpu.g2_load_8sm_" + size, eight.load / ceiling.load, ">=", 0.92);
    report.add_goal("gpu.g2_load_4sm_" + size, four.load / ceiling.load, ">=", 0.85);
    report.add_goal("gpu.g2_over_batch_" + size, eight.load / batch.load, ">=", 1.0);
    if (piece_bytes == 16 << 10) report.add_goal("gpu.g2_over_a_loop", eight.load / loop.load, ">=", 8);
  }
  return report.finish(argc > 2 ? argv[2] : ".") ? 0 : 1;
}
