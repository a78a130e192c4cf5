// Namespaces: the fingerprints under which one client stores and looks up, numbered as they were added, and which of them larderd
// has still to drop. Number 0 is the engine's own, opened by the handshake; the others (one for each adapter) are opened while the
// session runs and are misses until larderd has answered.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shim/client/attachment.h"
#include "shim/client/layout.h"
#include "shim/protocol/codec.h"

namespace larder::client {

// OPEN_NAMESPACE of one more fingerprint with the geometry of `spec`.
protocol::Encoder open_namespace_message(const NamespaceSpec& spec, const std::string& fingerprint, const std::string& model,
                                         std::uint32_t request);

class Namespaces {
 public:
  // `spec` outlives it and is complete before the first call.
  explicit Namespaces(const NamespaceSpec& spec) : spec_(spec) {}

  // The number of this fingerprint; the same text has the same number.
  Result<std::uint32_t> add(const std::string& fingerprint, const std::string& model);
  // Of a number that add() gave, or 0.
  protocol::NamespaceId id(std::uint32_t ns) const;
  // Waits until larderd has opened it in this session, at most so long. False: not yet.
  bool wait_open(const Attachment& attachment, std::uint32_t ns, std::uint32_t timeout_ms);
  // What was stored in this one before must not be found: larderd has not dropped it yet.
  bool drop_pending(std::uint32_t ns) const {
    return ns < drop_pending_.size() && drop_pending_[ns].load(std::memory_order_acquire);
  }
  // From here on nothing that was stored before is found, in any of them.
  void drop_all();

  // From the control thread.
  void attached(const std::shared_ptr<Attachment>& attachment);
  void opened(Attachment& attachment, std::uint32_t request, std::uint32_t handle);
  // False: GRANTED of this request answers no fence.
  bool fence_passed(std::uint32_t request);

 private:
  struct Name {
    std::string fingerprint, model;
    protocol::NamespaceId id;
  };
  void send_open(Attachment& attachment, std::uint32_t ns);
  void send_drop(Attachment& attachment, std::uint32_t ns);

  const NamespaceSpec& spec_;
  mutable std::mutex mutex_;
  std::condition_variable opened_;
  std::weak_ptr<Attachment> newest_;  // under the lock: who looked it up before might tell a session that is lost meanwhile
  std::vector<Name> added_;           // number 1 and up
  std::uint32_t drops_ = 0;
  std::array<std::atomic<bool>, protocol::kMaxClientNamespaces> drop_pending_{};
};

}  // namespace larder::client
