#include "sidecar/ipc/toucher.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "sidecar/base/log.h"

namespace larder::ipc {
namespace {

constexpr std::size_t kStepBytes = 64U << 20;  // about 0.1 s of touching at worst; a whole number of pages of any size but 1 GiB
constexpr std::size_t kPageBytes = 4096;

int touch(std::span<std::byte> step) {
  if (::madvise(step.data(), step.size(), MADV_POPULATE_WRITE) == 0) return 0;
  if (errno != EINVAL) return errno;
  // Kernels before 5.14: write to each page. Nobody else uses it yet, and 0 is what stands there.
  for (std::size_t at = 0; at < step.size(); at += kPageBytes) *reinterpret_cast<volatile std::byte*>(&step[at]) = std::byte{0};
  return 0;
}

std::string mib(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

Toucher::Toucher(std::span<std::byte> memory) : memory_(memory), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void Toucher::run(const std::stop_token& stop) {
  const std::size_t total = memory_.size();
  const std::size_t report_every = std::max<std::size_t>(total / 10, 256U << 20);
  std::size_t reported = 0;
  for (std::size_t at = 0; at < total && !stop.stop_requested();) {
    const std::size_t size = std::min(kStepBytes, total - at);
    if (const int error = touch(memory_.subspan(at, size)); error == EINTR || error == EAGAIN) {
      continue;
    } else if (error != 0) {
      problem_.store(error, std::memory_order_release);
      base::log_error("touching the arena stopped at " + mib(at) + " of " + mib(total) + ": " +
                      std::generic_category().message(error) +
                      "; only what was touched is used. Raise the memory or hugetlb limit, or lower memory.size");
      return;
    }
    at += size;
    touched_.store(at, std::memory_order_release);
    if (at - reported < report_every && at != total) continue;
    reported = at;
    base::log_info("arena: " + mib(at) + " of " + mib(total) + " touched");
  }
}

}  // namespace larder::ipc
