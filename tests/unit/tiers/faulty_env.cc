#include "tests/unit/tiers/faulty_env.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

namespace larder::disk::testing_support {
namespace {

class FaultyQueue final : public IoQueue {
 public:
  FaultyQueue(Faults& faults, std::unique_ptr<IoQueue> real)
      : faults_(faults), real_(std::move(real)) {}

  void submit(const IoRequest& request) override {
    const bool reads = request.kind == IoRequest::Kind::kRead;
    const bool bad = request.kind == IoRequest::Kind::kWrite &&
                     static_cast<std::int64_t>(request.offset) == faults_.bad_offset;
    const bool writes_fail =
        bad || faults_.all_writes_fail || faults_.calls >= faults_.writes_fail_from;
    const bool all_fail = reads ? faults_.all_reads_fail.load() : writes_fail;
    if (!faults_.fails_now() && !all_fail)
      return reads && faults_.hold_reads ? kept_.push_back(request) : real_->submit(request);
    failed_.push_back({request.tag, faults_.error.load()});
    if (request.kind != IoRequest::Kind::kWrite || (!faults_.tear_writes && !faults_.land_writes))
      return;
    IoRequest half = request;
    half.tag = kTornTag;
    if (!faults_.land_writes) {
      half.parts[1] = half.parts[1].first(half.parts[1].size() / 8192 * 4096);
      if (half.parts[1].empty()) return;  // a block is written wholly or not at all
    }
    real_->submit(half);
    std::vector<IoResult> results;
    for (bool torn = false; !torn;) {
      results.clear();
      real_->wait(1'000'000'000, results);
      for (const IoResult& result : results) {
        torn = torn || result.tag == kTornTag;
        if (result.tag != kTornTag) failed_.push_back(result);
      }
    }
  }
  void wait(std::uint64_t timeout_ns, std::vector<IoResult>& results) override {
    if (!faults_.hold_reads)
      for (const IoRequest& request : std::exchange(kept_, {})) real_->submit(request);
    std::vector<IoResult> now = std::exchange(failed_, {});
    real_->wait(now.empty() ? std::min<std::uint64_t>(timeout_ns, 20'000'000) : 0, now);
    std::vector<IoResult>& to = faults_.stalled ? held_ : results;
    if (!faults_.stalled && faults_.newest_first)
      std::ranges::sort(held_, std::ranges::greater(), &IoResult::tag);
    if (!faults_.stalled) results.insert(results.end(), held_.begin(), held_.end());
    if (!faults_.stalled) held_.clear();
    to.insert(to.end(), now.begin(), now.end());
  }
  void wake() override { real_->wake(); }
  const char* name() const override { return "faulty"; }

 private:
  static constexpr std::uint64_t kTornTag = ~1ULL;
  Faults& faults_;
  std::unique_ptr<IoQueue> real_;
  std::vector<IoResult> failed_, held_;
  std::vector<IoRequest> kept_;
};

}  // namespace

Status FaultyEnv::make_directory(const std::string& path, std::uint32_t mode) {
  if (faults.fails_now()) return Status::from_errno(faults.error, path);
  return Env::make_directory(path, mode);
}

Result<Fd> FaultyEnv::open(const std::string& path, int flags, std::uint32_t mode) {
  if (faults.fails_now()) return Status::from_errno(faults.error, path);
  return Env::open(path, flags, mode);
}

Status FaultyEnv::lock(const Fd& file) {
  if (faults.fails_now()) return Status::from_errno(faults.error, "flock");
  return Env::lock(file);
}

Status FaultyEnv::reserve(const Fd& file, std::uint64_t bytes) {
  if (faults.fails_now()) return Status::from_errno(faults.error, "fallocate");
  return Env::reserve(file, bytes);
}

OpenedQueue FaultyEnv::open_queue(const IoMemory& memory) {
  OpenedQueue opened = Env::open_queue(memory);
  return {std::make_unique<FaultyQueue>(faults, std::move(opened.queue)), opened.fallback};
}

}  // namespace larder::disk::testing_support
