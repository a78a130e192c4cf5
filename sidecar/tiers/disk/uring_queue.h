// UringQueue: an IoQueue over io_uring, through liburing.
#pragma once

#include "sidecar/tiers/disk/io_queue.h"

namespace larder::disk {

struct OpenedUring {
  std::unique_ptr<IoQueue> queue;
  std::string unregistered;  // why the arena is not registered; empty if it is
};
// kPermissionDenied or kInternal: the kernel or a seccomp profile refuses io_uring. REQUIRES: only
// the calling thread uses the queue.
Result<OpenedUring> open_uring_queue(std::span<std::byte> arena);

}  // namespace larder::disk
