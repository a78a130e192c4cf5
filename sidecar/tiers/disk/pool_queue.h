// PoolQueue: an IoQueue of a few threads that call preadv and pwritev, for where io_uring is refused.
#pragma once

#include "sidecar/tiers/disk/io_queue.h"

namespace larder::disk {

std::unique_ptr<IoQueue> make_pool_queue();

}  // namespace larder::disk
