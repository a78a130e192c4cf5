// The least cost for an engine's thread to give work to a sleeping thread: the floor for the cost
// of a submit.
#pragma once

#include <cstddef>

namespace larder::bench {

// Median microseconds of one notify to a thread that then copies `bytes` and sleeps again, like a
// load. Caches hold other data and the idle processor sleeps deeply, as for a single request.
double bare_wake_us(std::size_t bytes);

}  // namespace larder::bench
