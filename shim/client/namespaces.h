// Namespaces: the fingerprints under which one client stores and looks up, numbered in the order of
// add(), and the drops that larderd has still to do.
//
// Number 0 is the engine's own namespace, opened by the handshake. The others (one for each
// adapter) are opened while the session runs; their keys are misses until larderd has answered. A
// closed number is a miss for ever. Its place goes to the next namespace, under another number
// (namespace_number_place()). CLOSE_NAMESPACE names the request that opened the namespace, so
// close() need not wait for larderd's answer to OPEN_NAMESPACE.
//
// After drop_all() look-ups miss until larderd has done the drop. Without a session the drop is
// sent at the next attachment. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "shim/client/attachment.h"
#include "shim/client/layout.h"
#include "shim/client/log_ring.h"
#include "shim/client/lookup.h"
#include "shim/protocol/codec.h"

namespace larder::client {

// OPEN_NAMESPACE of a fingerprint with the geometry of `spec` for that kind. `part_words`: of
// ChunkParts.
protocol::Encoder open_namespace_message(const NamespaceSpec& spec, NamespaceKind kind,
                                         const std::string& fingerprint, const std::string& model,
                                         std::uint32_t request,
                                         std::span<const std::uint64_t> part_words = {});

class Namespaces {
 public:
  // `spec` outlives the object and is complete before the first call. `first_generation` is that of
  // every place.
  // `log`: outlives the object, or nullptr.
  explicit Namespaces(const NamespaceSpec& spec, std::uint32_t first_generation = 0,
                      LogRing* log = nullptr);

  // Call again when `spec` is complete, before other calls: all parts are kept.
  void keep_all_parts();
  // Which parts larderd keeps: a byte other than 0 for each shard and group of the client, group by
  // group inside a shard. Once, before the first namespace. kFailedPrecondition: a namespace is
  // open, or the parts are set already. kInvalidArgument: no part of tokens is left, or the parts
  // contradict the client's own layers.
  Status set_parts(std::span<const std::uint8_t> kept);
  // The number of this fingerprint; the same text has the same number until closed.
  // kResourceExhausted: all places are taken. kInvalidArgument: the text is open with another kind.
  Result<std::uint32_t> add(const std::string& fingerprint, const std::string& model,
                            NamespaceKind kind = NamespaceKind::kTokens);
  // From here on the number is a miss, and its place is free. `drop`: the last session to close the
  // namespace drops its chunks from larderd's memory. Never waits. kInvalidArgument: the engine's
  // own namespace. kNotFound: the number is unknown or closed.
  Status close(std::uint32_t ns, bool drop);
  // The groups of the namespace's chunks; meaningless for a closed number.
  GroupRange groups(std::uint32_t ns) const { return spec_.range(kind(ns)); }
  bool is_states(std::uint32_t ns) const { return kind(ns) == NamespaceKind::kStates; }
  const ChunkParts& parts(std::uint32_t ns) const { return parts_of(kind(ns)); }
  // Sets the fields of the transfer that depend on its namespace. kInvalidArgument: no such part,
  // or one that larderd or this client does not keep.
  Status place(Transfer& transfer) const;
  // nullopt: the number is unknown or closed.
  std::optional<protocol::NamespaceId> id(std::uint32_t ns) const;
  // Waits until larderd has opened the namespace in this session. kDeadlineExceeded: not within
  // timeout_ms. kNotFound: the number is unknown or closed.
  Status wait_open(const Attachment& attachment, std::uint32_t ns, std::uint32_t timeout_ms);
  // Whether larderd has still to drop the namespace: its stored chunks must not be found.
  bool drop_pending(std::uint32_t ns) const {
    return drop_pending_[namespace_number_place(ns)].load(std::memory_order_acquire);
  }
  // From here on no chunk that was stored before is found, in any namespace.
  void drop_all();

  // From the control thread.
  void attached(const std::shared_ptr<Attachment>& attachment);
  void opened(Attachment& attachment, std::uint32_t request, std::uint32_t handle);
  // False: the GRANTED with this request does not end a drop.
  bool fence_passed(std::uint32_t request);

 private:
  struct Place {
    bool taken = false, ended = false;  // ended: the place has no number left
    std::uint32_t number = 0;           // of the namespace, or the next one's
    std::string fingerprint, model;
    protocol::NamespaceId id;
    std::uint32_t fence = 0;  // request behind the newest drop; 0: no drop
  };
  NamespaceKind kind(std::uint32_t ns) const {
    return kinds_[namespace_number_place(ns)].load(std::memory_order_acquire);
  }
  // By kind.
  using ByKind = std::array<ChunkParts, kNamespaceKinds.size()>;
  const ChunkParts& parts_of(NamespaceKind kind) const {
    return (*parts_.load(std::memory_order_acquire))[static_cast<std::size_t>(kind)];
  }
  bool is_taken(std::uint32_t ns) const;
  // Whether this larderd knows of parts that are not kept. Namespaces stay misses in another one.
  bool serves(const Attachment& attachment) const;
  void send_open(Attachment& attachment, const Place& place);
  void send_drop(Attachment& attachment, Place& place);

  const NamespaceSpec& spec_;
  LogRing* const log_;
  ByKind all_, chosen_;
  std::atomic<const ByKind*> parts_{&all_};
  mutable std::mutex mutex_;
  std::condition_variable opened_;
  // Read under the lock: a copy read before might be a lost session by now.
  std::weak_ptr<Attachment> newest_;
  std::array<Place, protocol::kMaxClientNamespaces> places_;
  bool dropped_ = false;
  std::uint32_t last_fence_ = 0;
  std::array<std::atomic<bool>, protocol::kMaxClientNamespaces> drop_pending_{};  // by place
  std::array<std::atomic<NamespaceKind>, protocol::kMaxClientNamespaces> kinds_{};
};

}  // namespace larder::client
