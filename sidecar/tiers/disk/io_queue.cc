#include "sidecar/tiers/disk/io_queue.h"

#include "sidecar/tiers/disk/pool_queue.h"
#include "sidecar/tiers/disk/uring_queue.h"

namespace larder::disk {

OpenedQueue open_io_queue(const IoMemory& memory) {
  // The seccomp profiles of containerd and Docker refuse io_uring by default. Four threads serve
  // there, and `/v1/status` says so.
  if (!memory.allow_uring) return {make_pool_queue(), "io_uring is turned off"};
  Result<OpenedUring> uring = open_uring_queue(memory.arena);
  if (!uring.ok()) return {make_pool_queue(), "io_uring is refused: " + uring.status().text()};
  if (uring->unregistered.empty()) return {std::move(uring->queue), ""};
  // RLIMIT_MEMLOCK is 8 MiB in many pods. Unregistered slots cost a page lookup for each request,
  // no correctness.
  return {std::move(uring->queue), "slots not registered: " + uring->unregistered};
}

}  // namespace larder::disk
