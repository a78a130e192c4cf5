// Attachment: everything that one session with one life of a sidecar gave us: the mapped regions, the lock, the socket.
//
// Shared by the control thread, look-ups, holds and copies, and alive until the last of them lets go: a new attachment never pulls
// the mappings away from a copy. The lock goes last, which tells the sidecar that the writers of this session have stopped.
// Immutable after it is made, but for its thread-safe members: thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "shim/client/arena_view.h"
#include "shim/client/event_ring.h"
#include "shim/client/hold_table.h"
#include "shim/client/layout.h"
#include "shim/client/outbox.h"
#include "shim/protocol/index_reader.h"
#include "shim/protocol/messages.h"
#include "shim/protocol/residency_layout.h"
#include "shim/protocol/session_layout.h"

namespace larder::client {

class Attachment {
 public:
  // Maps the regions of a WELCOME and takes the lock. `fds` are arena, index, session, lock, and below where WELCOME says so. Where
  // `earlier`, which may be nullptr, maps the same arena, its mapping is used.
  static Result<std::shared_ptr<Attachment>> make(const protocol::Welcome& welcome, std::vector<Fd> fds, Fd socket,
                                                  std::shared_ptr<const Fd> wake, const Attachment* earlier = nullptr);
  // May unmap the arena: not on an engine's thread, nor under a lock that one may want (see Control::earlier_).
  ~Attachment();

  const protocol::Welcome& welcome() const { return welcome_; }
  std::uint64_t epoch() const { return welcome_.epoch; }
  const protocol::IndexReader& index() const { return reader_; }
  // valid() where this larderd has a tier below its memory.
  const protocol::ResidencyReader& below() const { return residency_reader_; }
  // The handle of this client's namespace of that number in this index; kNoHandle until larderd has told it: its keys are misses.
  static constexpr std::uint32_t kNoHandle = protocol::kNoNamespace;
  std::uint32_t namespace_handle(std::uint32_t ns) const {
    const std::uint64_t named = handles_[namespace_number_place(ns)].load(std::memory_order_acquire);
    return protocol::low_half(named) == ns ? protocol::high_half(named) : kNoHandle;
  }
  // From here on the number that had this place is a miss.
  void set_namespace_handle(std::uint32_t ns, std::uint32_t handle) {
    handles_[namespace_number_place(ns)].store(protocol::pack_halves(ns, handle), std::memory_order_release);
  }

  protocol::Key key(std::uint32_t ns, const protocol::BlockHash& hash, std::uint16_t shard, std::uint16_t group) const {
    return {hash, namespace_handle(ns), shard, group};
  }
  // Bytes of a slot, or nothing where they would leave the arena.
  std::span<std::byte> slot(std::uint64_t offset_bytes, std::uint64_t size_bytes) const {
    if (offset_bytes > arena_->size() || size_bytes > arena_->size() - offset_bytes) return {};
    return {arena_->data() + offset_bytes, size_bytes};
  }

  // Of a granted slot. The control thread's.
  void prefault(std::uint64_t offset_bytes, std::uint64_t size_bytes) {
    if (const std::span<std::byte> bytes = slot(offset_bytes, size_bytes); !bytes.empty()) arena_->prefault(offset_bytes, bytes);
  }
  // For copies of the engine that wants it, as far as larderd has touched the arena. The control thread's.
  // And tells larderd how far that is.
  void make_ready(const copy::CopyEngine& engine) {
    arena_->make_ready(engine, reader_.touched_bytes());
    region().registered_bytes.store(arena_->ready_bytes(), std::memory_order_relaxed);
    region().copy_strategy.store(engine.strategy().packed(), std::memory_order_relaxed);
  }
  // The arena, where this is the last attachment to it, is to be taken back from a device with pauses: the process goes on. REQUIRES: it is the last reference.
  void take_back_slowly() {
    if (arena_.use_count() == 1) arena_->take_back_slowly();
  }
  // Before a device of this process writes into a slot for the first time; once is enough, and later calls cost nothing. False: larderd cannot be
  // told, and nothing may be written so.
  bool tell_device_writes();
  // Then slots have the same numbers, places and generations in both.
  bool same_arena(const Attachment& other) const { return arena_ == other.arena_; }

  // Of chunks of this client's namespaces that are there, a few a call. The control thread's.
  void prefault_ahead();

  void beat() { region().heartbeat.fetch_add(1, std::memory_order_release); }
  HoldTable& holds() { return holds_; }
  EventRing& events() { return events_; }
  Outbox& outbox() { return outbox_; }

 private:
  Attachment(const protocol::Welcome& welcome, Fd lock, std::shared_ptr<ArenaView> arena, Mapping index, Mapping session,
             Mapping below, Fd socket, std::shared_ptr<const Fd> wake);

  protocol::SessionRegion& region() { return *reinterpret_cast<protocol::SessionRegion*>(session_.data()); }

  const protocol::Welcome welcome_;
  const Fd lock_;
  std::atomic<bool> device_writes_told_{false};
  const std::shared_ptr<ArenaView> arena_;  // shared with earlier attachments
  const Mapping index_;
  const Mapping session_;
  const Mapping below_;  // or none
  protocol::IndexReader reader_;
  protocol::ResidencyReader residency_reader_;
  std::array<protocol::AtomicU64, protocol::kMaxClientNamespaces> handles_;  // by place: a number (low half) and its handle
  HoldTable holds_;
  EventRing events_;
  Outbox outbox_;
};

}  // namespace larder::client
