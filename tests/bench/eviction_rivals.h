// The rivals of `make bench-eviction` that larderctl does not simulate: LFU, GD-freq, SIEVE, ARC
// and W-TinyLFU, each after its paper and over chunks of one byte. They do not know prompts.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sidecar/sizing/simulated_cache.h"

namespace larder::bench {

// Every rival: those of larderctl, LRU by prompt among them, and those of this file.
std::span<const std::string_view> rivals();
// A cache of `chunks` places. REQUIRES: a name of rivals(), or of sizing::policies().
std::unique_ptr<sizing::SimulatedCache> make_rival(std::string_view name, std::uint64_t chunks);

}  // namespace larder::bench
