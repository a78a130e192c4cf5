// bench gpu, submit: the cost for an engine's thread to ask for a load, over a larderd, for pages
// in host memory on any machine, and for pages on a GPU if there is one. gpu_copy_bench.py has the
// speed of the copies.
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

const std::string kHost = "host memory";

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "gpu_bench: %s\n", why.c_str());
  std::exit(1);
}

void add_row(bench::Report& report, const std::string& pages, const std::string& commit,
             bench::Cell pieces, bench::Cell submit_us, bench::Cell wake_us) {
  report.add_row({{"pages in", pages},
                  {"commit", commit},
                  {"pieces", std::move(pieces)},
                  {"submit us", std::move(submit_us)},
                  {"to wake a thread only, us", std::move(wake_us)}});
}

// Figures of one kind of memory, by chunks; or the reason for no figure. False: a load failed.
bool add_submits(bench::Report& report, bench::SubmitArm& arm, std::byte* pages,
                 const std::string& device, const std::string& commit) {
  if (pages == nullptr || !arm.attach(pages)) {
    add_row(report, device, commit, "", "not measured: no memory, or no larderd", "");
    return true;
  }
  for (const std::uint32_t chunks : {1U, 16U, bench::SubmitArm::kMostChunks}) {
    const std::optional<double> us = arm.median_us(chunks);
    const std::size_t pieces = chunks * bench::SubmitArm::kLayers * bench::SubmitArm::kBlocks;
    if (!us) {
      add_row(report, device, commit, static_cast<double>(pieces), "FAILED: a load", "");
      return false;
    }
    add_row(report, device, commit, static_cast<double>(pieces), *us,
            bench::bare_wake_us(pieces * bench::SubmitArm::kPieceBytes));
    if (chunks == bench::SubmitArm::kMostChunks)
      report.add_goal(device == kHost ? "gpu.submit_host_us" : "gpu.submit_us", *us, "<=", 5);
  }
  return true;
}

// A directory, removed with the object.
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
  bool well = add_submits(report, submits, pages.data(), kHost, commit);
  std::string why;
  const auto device = testing_support::RealDevice::open(why);
  if (device == nullptr)
    add_row(report, "a GPU", commit, "", "not measured: " + why, "");
  else
    well = add_submits(report, submits, device->allocate(bench::SubmitArm::kPageBytes),
                       device->name(), commit) &&
           well;
  return report.finish(argc > 2 ? argv[2] : ".") && well ? 0 : 1;
}
