// Namespaces: the fingerprints under which one client stores and looks up, numbered as they were added, and which of them larderd
// has still to drop. Number 0 is the engine's own, opened by the handshake; the others (one for each adapter) are opened while the
// session runs and are misses until larderd has answered. One that is closed leaves its place to the next, which has another number
// (namespace_number_place()).
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "shim/client/attachment.h"
#include "shim/client/layout.h"
#include "shim/protocol/codec.h"

namespace larder::client {

// OPEN_NAMESPACE of one more fingerprint with the geometry of `spec`.
protocol::Encoder open_namespace_message(const NamespaceSpec& spec, const std::string& fingerprint, const std::string& model,
                                         std::uint32_t request);

class Namespaces {
 public:
  // `spec` outlives it and is complete before the first call. `first_generation`: of every place.
  explicit Namespaces(const NamespaceSpec& spec, std::uint32_t first_generation = 0);

  // The number of this fingerprint; the same text has the same number until it is closed. kResourceExhausted: no place.
  Result<std::uint32_t> add(const std::string& fingerprint, const std::string& model);
  // From here on the number is a miss and its place another's. `drop`: the last session that closes it has its chunks dropped from larderd's
  // memory. Waits for nothing. kInvalidArgument: the engine's own. kNotFound: no such number (any more).
  Status close(std::uint32_t ns, bool drop);
  // Nothing where there is no such number (any more).
  std::optional<protocol::NamespaceId> id(std::uint32_t ns) const;
  // Waits until larderd has opened it in this session, at most so long: kDeadlineExceeded. kNotFound: no such number (any more).
  Status wait_open(const Attachment& attachment, std::uint32_t ns, std::uint32_t timeout_ms);
  // What was stored in this one before must not be found: larderd has not dropped it yet.
  bool drop_pending(std::uint32_t ns) const { return drop_pending_[namespace_number_place(ns)].load(std::memory_order_acquire); }
  // From here on nothing that was stored before is found, in any of them.
  void drop_all();

  // From the control thread.
  void attached(const std::shared_ptr<Attachment>& attachment);
  void opened(Attachment& attachment, std::uint32_t request, std::uint32_t handle);
  // False: GRANTED of this request answers no fence.
  bool fence_passed(std::uint32_t request);

 private:
  struct Place {
    bool taken = false, ended = false;  // ended: its numbers are used up
    std::uint32_t number = 0;           // its own, or the next one's
    std::string fingerprint, model;
    protocol::NamespaceId id;
    std::uint32_t fence = 0;  // request of its newest drop; 0: there is none
  };
  bool is_taken(std::uint32_t ns) const;
  void send_open(Attachment& attachment, const Place& place);
  void send_drop(Attachment& attachment, Place& place);

  const NamespaceSpec& spec_;
  mutable std::mutex mutex_;
  std::condition_variable opened_;
  std::weak_ptr<Attachment> newest_;  // under the lock: who looked it up before might tell a session that is lost meanwhile
  std::array<Place, protocol::kMaxClientNamespaces> places_;
  bool dropped_ = false;
  std::uint32_t last_fence_ = 0;
  std::array<std::atomic<bool>, protocol::kMaxClientNamespaces> drop_pending_{};  // by place
};

}  // namespace larder::client
