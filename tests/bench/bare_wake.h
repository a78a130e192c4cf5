// What an engine's thread pays at least where it hands work to a thread that sleeps: the floor beside which a submit is judged.
#pragma once

#include <cstddef>

namespace larder::bench {

// Median microseconds of one notify and nothing else, of a thread that then copies `bytes` and sleeps again, as a load does: the caches
// are as full of other things, and an idle processor sleeps as deep, as when a request comes alone.
double bare_wake_us(std::size_t bytes);

}  // namespace larder::bench
