// bench gpu, submit: what it costs an engine's thread to ask for a load, over a larderd, for pages in host memory on any machine, and for pages on a GPU where
// there is one. What the copies themselves reach is gpu_copy_bench.py's.
//
// Usage: gpu_bench COMMIT [DIRECTORY of the JSON]
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/bare_wake.h"
#include "tests/bench/report.h"
#include "tests/bench/submit_arm.h"
#include "tests/cuda/real_device.h"

namespace {

using namespace larder;
using namespace larder::copy;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "gpu_bench: %s\n", why.c_str());
  std::exit(1);
}

// Figures of one kind of memory, by chunks; nothing is added where it cannot be measured, which is said.
void add_submits(bench::Report& report, bench::SubmitArm& arm, std::byte* pages, const std::string& device,
                 const std::string& commit) {
  if (pages == nullptr || !arm.attach(pages))
    return static_cast<void>(std::printf("submit, %s: no memory, or no larderd\n", device.c_str()));
  for (const std::uint32_t chunks : {1U, 16U, bench::SubmitArm::kMostChunks}) {
    const std::optional<double> us = arm.median_us(chunks);
    if (!us) fail("a load failed");
    const std::size_t pieces = chunks * bench::SubmitArm::kLayers * bench::SubmitArm::kBlocks;
    const double wake_us = bench::bare_wake_us(pieces * bench::SubmitArm::kPieceBytes);
    std::printf("submit, pages in %s, commit %s: %5zu pieces %6.2f us; to wake a thread and nothing else %6.2f us\n",
                device.c_str(), commit.c_str(), pieces, *us, wake_us);
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
    std::printf("submit, pages on a GPU: not measured: %s\n", why.c_str());
    return report.finish(argc > 2 ? argv[2] : ".") ? 0 : 1;
  }
  std::printf("%s, commit %s\n", device->name().c_str(), commit.c_str());
  add_submits(report, submits, device->allocate(bench::SubmitArm::kPageBytes), device->name(), commit);
  return report.finish(argc > 2 ? argv[2] : ".") ? 0 : 1;
}
