// BroughtUp: chunks that the gets of a simulated tier have brought into the arena, until larderd
// hears of each one, once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sidecar/tiers/tier.h"

namespace larder::sim {

struct Up {
  std::uint64_t number, offset, generation;
};

class BroughtUp {
 public:
  void add(tiers::Ticket ticket, const Up& up) { up_[ticket] = up; }
  std::optional<Up> take(tiers::Ticket ticket) {
    const auto found = up_.extract(ticket);
    return found.empty() ? std::nullopt : std::optional(found.mapped());
  }

 private:
  std::map<tiers::Ticket, Up> up_;
};

}  // namespace larder::sim
