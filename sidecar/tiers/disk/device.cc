#include "sidecar/tiers/disk/device.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "sidecar/base/file_limit.h"

namespace larder::disk {
namespace {

// O_DIRECT demands the block size of the device, 512 or 4,096 bytes. 4,096 satisfies both.
constexpr std::size_t kAlignment = 4096;

}  // namespace

AlignedBytes::AlignedBytes(std::size_t bytes)
    : bytes_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}))),
      size_(bytes) {
  // Padding goes to the disk as zeroes, never as old memory of the process.
  std::memset(bytes_.get(), 0, bytes);
}

void AlignedBytes::Free::operator()(std::byte* bytes) const {
  ::operator delete (bytes, std::align_val_t{kAlignment});
}

void Device::start(IoRequest request, Then then) {
  request.tag = next_tag_++;
  flights_.emplace(request.tag,
                   Flight{clock_.now_ns(), request.kind, request.bytes(), std::move(then)});
  queue_->submit(request);
}

void Device::turn(std::uint64_t timeout_ns) {
  results_.clear();
  queue_->wait(timeout_ns, results_);
  for (const IoResult& result : results_) {
    const auto at = flights_.find(result.tag);
    if (at == flights_.end()) continue;
    const Flight flight = std::move(at->second);
    // Before the callback: the callback may start the next request, and has_room() must count the
    // freed place.
    flights_.erase(at);
    if (result.error == 0)
      (flight.kind == IoRequest::Kind::kRead ? read_bytes : written_bytes) += flight.bytes;
    flight.then(result.error);
  }
}

Status Device::turn_until(const std::function<bool()>& so) {
  const std::uint64_t end = clock_.now_ns() + kStartTimeoutNs;
  while (!so()) {
    const std::uint64_t now = clock_.now_ns();
    if (now >= end) return {Code::kDeadlineExceeded, "the device does not answer"};
    turn(std::min<std::uint64_t>(end - now, 100'000'000));
  }
  return {};
}

Status Device::run(const IoRequest& request) {
  // Shared: the result may arrive after the give-up.
  const auto outcome = std::make_shared<int>(-1);
  start(request, [outcome](int error) { *outcome = error; });
  if (Status status = turn_until([&] { return *outcome >= 0; }); !status.ok()) return status;
  if (*outcome != 0)
    return base::file_failure(*outcome, request.kind == IoRequest::Kind::kRead ? "read" : "write");
  return {};
}

std::uint64_t Device::oldest_start_ns() const {
  // At most kMaxIoInFlight entries: a scan is cheaper than a second, ordered table.
  std::uint64_t oldest = clock_.now_ns();
  for (const auto& [tag, flight] : flights_) oldest = std::min(oldest, flight.started_ns);
  return oldest;
}

}  // namespace larder::disk
