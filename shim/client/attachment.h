// Attachment: the mapped regions, the lock and the socket of one session with one life of a
// sidecar.
//
// The control thread, look-ups, holds and copies share an attachment, which lives until the last of
// them releases it. A new attachment therefore never unmaps memory under a copy. The lock closes
// last, and tells the sidecar that the writers of this session have stopped. Thread-safe: immutable
// after make(), except for thread-safe members.
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
  // Maps the regions of a WELCOME and takes the lock. `fds`: arena, index, session, lock, and the
  // residency filter where WELCOME announces one. If `earlier` (may be nullptr) maps the same
  // arena, the new attachment shares the mapping.
  static Result<std::shared_ptr<Attachment>> make(const protocol::Welcome& welcome,
                                                  std::vector<Fd> fds, Fd socket,
                                                  std::shared_ptr<const Fd> wake,
                                                  const Attachment* earlier = nullptr);
  // May unmap the arena. Never runs on an engine's thread, nor under a lock that an engine's thread
  // may want (see Control::earlier_).
  ~Attachment();

  const protocol::Welcome& welcome() const { return welcome_; }
  std::uint64_t epoch() const { return welcome_.epoch; }
  const protocol::IndexReader& index() const { return reader_; }
  // The residency filter; valid() if this larderd has a tier below memory.
  const protocol::ResidencyReader& residency() const { return residency_reader_; }
  // The handle, in this index, of the client's namespace `ns`. kNoHandle until larderd has
  // answered; keys of the namespace are misses until then.
  static constexpr std::uint32_t kNoHandle = protocol::kNoNamespace;
  std::uint32_t namespace_handle(std::uint32_t ns) const {
    const std::uint64_t named =
        handles_[namespace_number_place(ns)].load(std::memory_order_acquire);
    return protocol::low_half(named) == ns ? protocol::high_half(named) : kNoHandle;
  }
  // From here on the earlier number of this place is a miss.
  void set_namespace_handle(std::uint32_t ns, std::uint32_t handle) {
    handles_[namespace_number_place(ns)].store(protocol::pack_halves(ns, handle),
                                               std::memory_order_release);
  }

  protocol::Key key(std::uint32_t ns, const protocol::BlockHash& hash, std::uint16_t shard,
                    std::uint16_t group) const {
    return {hash, namespace_handle(ns), shard, group};
  }
  // The bytes of a slot; empty if the slot is not inside the arena.
  std::span<std::byte> slot(std::uint64_t offset_bytes, std::uint64_t size_bytes) const {
    if (offset_bytes > arena_->size() || size_bytes > arena_->size() - offset_bytes) return {};
    return {arena_->data() + offset_bytes, size_bytes};
  }

  // Makes the pages of a granted slot present. Called on the control thread.
  void prefault(std::uint64_t offset_bytes, std::uint64_t size_bytes) {
    if (const std::span<std::byte> bytes = slot(offset_bytes, size_bytes); !bytes.empty())
      arena_->prefault(offset_bytes, bytes);
  }
  // Registers with `engine` the bytes of the arena that larderd has touched, and tells larderd the
  // registered size. Called on the control thread.
  void make_ready(const copy::CopyEngine& engine) {
    arena_->make_ready(engine, reader_.touched_bytes());
    region().registered_bytes.store(arena_->ready_bytes(), std::memory_order_relaxed);
    region().copy_strategy.store(engine.strategy().packed(), std::memory_order_relaxed);
  }
  // If this is the last attachment to the arena: unregister the arena from the device with pauses,
  // because the process goes on. REQUIRES: the caller has the last reference.
  void take_back_slowly() {
    if (arena_.use_count() == 1) arena_->take_back_slowly();
  }
  // Call this before a device of this process writes into a slot for the first time; later calls
  // are free. False: larderd cannot be informed, and the device must not write.
  bool tell_device_writes();
  // Slots of one arena have the same numbers, places and generations in both attachments.
  bool same_arena(const Attachment& other) const { return arena_ == other.arena_; }

  // Makes pages of stored chunks of this client's namespaces present, a few per call. Called on the
  // control thread.
  void prefault_ahead();

  void beat() { region().heartbeat.fetch_add(1, std::memory_order_release); }
  HoldTable& holds() { return holds_; }
  EventRing& events() { return events_; }
  Outbox& outbox() { return outbox_; }

 private:
  struct Regions {
    Fd lock;
    std::shared_ptr<ArenaView> arena;
    Mapping index, session;
    Mapping residency;  // may be empty
  };
  Attachment(const protocol::Welcome& welcome, Regions regions, Fd socket,
             std::shared_ptr<const Fd> wake);

  protocol::SessionRegion& region() {
    return *reinterpret_cast<protocol::SessionRegion*>(session_.data());
  }

  const protocol::Welcome welcome_;
  const Fd lock_;
  std::atomic<bool> device_writes_told_{false};
  const std::shared_ptr<ArenaView> arena_;  // shared with earlier attachments
  const Mapping index_;
  const Mapping session_;
  const Mapping residency_;  // may be empty
  protocol::IndexReader reader_;
  protocol::ResidencyReader residency_reader_;
  // By place: number (low half) and handle.
  std::array<protocol::AtomicU64, protocol::kMaxClientNamespaces> handles_;
  HoldTable holds_;
  EventRing events_;
  Outbox outbox_;
};

}  // namespace larder::client
