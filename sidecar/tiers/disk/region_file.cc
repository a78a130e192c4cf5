#include "sidecar/tiers/disk/region_file.h"

#include <utility>

#include "sidecar/base/log_throttle.h"

namespace larder::disk {
namespace {

OpenedQueue open_queue(Env& env, const DiskOptions& options) {
  return env.open_queue({options.arena, options.allow_uring});
}

}  // namespace

RegionFile::RegionFile(Env& env, const base::Clock& clock, const DiskOptions& options,
                       Catalog& catalog)
    : env_(env),
      clock_(clock),
      options_(options),
      catalog_(catalog),
      health_(options.retry_ms),
      ttl_{options.ttl_s},
      // Device takes the queue in the constructor. The lambda keeps the two texts about the queue.
      device_(clock, [&] {
        OpenedQueue opened = open_queue(env, options);
        queue_fallback_ = opened.fallback;
        mode_ = opened.queue->name();
        return std::move(opened.queue);
      }()) {}

void RegionFile::start_io(IoRequest::Kind kind, std::uint64_t offset, std::span<std::byte> bytes,
                          Device::Then then) {
  IoRequest request;
  request.kind = kind;
  // The descriptor is read at the start of the request. DiskEngine closes the file only when no
  // request is in flight.
  request.fd = volume_->file.get();
  request.offset = offset;
  request.parts[0] = bytes;
  device_.start(request, std::move(then));
}

void RegionFile::say(std::string_view kind, const std::string& text) const {
  // A device that fails for hours must not fill the log: log_from() bounds the lines of each kind.
  base::log_from("disk tier, " + std::string(kind), base::LogLevel::kInfo,
                 "disk tier at " + options_.path + ": " + text);
}

}  // namespace larder::disk
