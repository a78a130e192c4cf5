// EventRing: the engine's end of the lossy ring of events in the session region.
//
// Thread-safe for any number of writers; never waits. A writer that is overtaken by a whole round
// spoils at most its own event: the sequence, stored last, tells the reader.
#pragma once

#include "shim/protocol/session_layout.h"

namespace larder::client {

struct EventFields {
  protocol::EventKind kind = protocol::EventKind::kNone;
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
  std::uint64_t a = 0, b = 0, c = 0, d = 0, flags = 0;
};

class EventRing {
 public:
  // The region outlives the ring.
  explicit EventRing(protocol::SessionRegion& region) : region_(region) {}

  void add(const EventFields& fields) {
    const std::uint64_t position = region_.event_head.fetch_add(1, std::memory_order_acq_rel);
    protocol::Event& event = region_.events[position % protocol::kEventSlots];
    event.sequence.store(0, std::memory_order_release);
    event.kind_slot.store(
        protocol::pack_halves(static_cast<std::uint32_t>(fields.kind), fields.slot),
        std::memory_order_release);
    event.generation.store(fields.generation, std::memory_order_release);
    event.a.store(fields.a, std::memory_order_release);
    event.b.store(fields.b, std::memory_order_release);
    event.c.store(fields.c, std::memory_order_release);
    event.d.store(fields.d, std::memory_order_release);
    event.flags.store(fields.flags, std::memory_order_release);
    event.sequence.store(position + 1, std::memory_order_release);
  }

 private:
  protocol::SessionRegion& region_;
};

}  // namespace larder::client
