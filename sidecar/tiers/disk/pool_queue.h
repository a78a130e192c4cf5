// PoolQueue: an IoQueue of four threads that call preadv and pwritev. For systems that refuse
// io_uring.
#pragma once

#include "sidecar/tiers/disk/io_queue.h"

namespace larder::disk {

std::unique_ptr<IoQueue> make_pool_queue();

}  // namespace larder::disk
