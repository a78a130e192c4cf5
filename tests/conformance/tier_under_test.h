// A tier of some kind for the conformance suite: made, and made again over the files of the last
// one, if the kind keeps files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/tier.h"

namespace larder::tiers::testing_support {

// Of tiers over memory.
inline constexpr std::size_t kMostChunks = 24;
inline constexpr std::uint64_t kMostSlotBytes = 4 << 20;

// Owns the tier's needs (a directory, a clock) until the destructor.
class TierBox {
 public:
  virtual ~TierBox() = default;
  virtual std::unique_ptr<Tier> open() = 0;
  virtual bool survives_restart() const = 0;
  // whether several tiers may be open over one place at once
  virtual bool shared() const { return false; }
  // whether a probe tells the generation of a chunk that this tier has not stored or read
  virtual bool probes_tell_facts() const { return true; }
  virtual std::uint64_t most_slot_bytes() const = 0;  // of one chunk
  virtual std::uint64_t accepted_bytes() const = 0;   // bound of operations in flight
  // no more than this many chunks can be there together
  virtual std::uint64_t capacity_chunks_of_1_mib() const = 0;
  base::MonotonicClock clock;
};

struct TierKind {
  std::string name;
  std::function<std::unique_ptr<TierBox>()> make;
};

inline void PrintTo(const TierKind& kind, std::ostream* out) {
  *out << kind.name;
}

std::unique_ptr<TierBox> make_memory_box();
std::unique_ptr<TierBox> make_peer_box();
std::unique_ptr<TierBox> make_plugin_box();
std::unique_ptr<TierBox> make_disk_box(bool allow_uring, bool allow_direct);
// Null: the server is not on this machine (`make deps`).
std::unique_ptr<TierBox> make_remote_box(const std::string& server, std::uint32_t connections);
std::unique_ptr<TierBox> make_cluster_box(const std::string& server);  // of three masters

}  // namespace larder::tiers::testing_support
