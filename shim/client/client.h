// Client: one engine process attached to one larderd. larder.h is the contract; this class is the
// same in C++.
//
// Thread-safe, except for destruction. These calls wait for larderd, at most for the time that the
// caller gives: wait_attached(), wait_namespace(), store_finish(), pages_leave(), and those that
// LowerTiers names. No other call waits for larderd.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "cuda/copy_engine.h"
#include "shim/client/control.h"
#include "shim/client/fork_guard.h"
#include "shim/client/loads.h"
#include "shim/client/lookup.h"
#include "shim/client/lookups.h"
#include "shim/client/lower_tiers.h"
#include "shim/client/namespaces.h"
#include "shim/client/page_copies.h"
#include "shim/client/registered_pages.h"
#include "shim/client/session_events.h"
#include "shim/client/sidecar_copies.h"
#include "shim/client/stores.h"

namespace larder::client {

struct Options {
  std::string socket;
  std::string engine;
  unsigned copy_threads = 1;
};

struct State {
  bool attached = false;
  bool usable = false;
  std::uint32_t attachments = 0;
  std::uint64_t epoch = 0;
  std::uint64_t loads_running = 0;
  std::uint64_t stores_running = 0;
};

class Client {
 public:
  // `engine` outlives the client. Throws std::system_error when a thread cannot be made.
  Client(Options options, const copy::CopyEngines& engines);
  // Waits until no thread writes into registered pages.
  ~Client();

  // True in a forked child. All calls are refused there, and the client must not be destroyed.
  bool in_child() const { return fork_guard_.in_child(); }

  Status set_namespace(NamespaceSpec spec);
  // See Namespaces::set_parts().
  Status set_parts(std::span<const std::uint8_t> kept);
  // Adds a namespace. The number goes into Hashes and Transfer; the same fingerprint has the same
  // number. Its chunks have the spec's groups of that kind.
  Result<std::uint32_t> add_namespace(const std::string& fingerprint, const std::string& model,
                                      NamespaceKind kind = NamespaceKind::kTokens);
  // See Namespaces::close().
  Status close_namespace(std::uint32_t ns, bool drop);
  // Waits until larderd has opened the namespace, at most timeout_ms; returns at once without a
  // session.
  Status wait_namespace(std::uint32_t ns, std::uint32_t timeout_ms);
  Status register_pages(std::uint32_t group, GroupPages layers);

  // See larder_after_stream().
  Status after_stream(void* stream) { return copies_.follow(stream); }

  // Call this before the memory of the registered pages goes, as in an engine's sleep mode: larderd
  // closes its mapping of the pages. REQUIRES: no load or store runs, and none begins before
  // pages_are_back(). kDeadlineExceeded: larderd has not closed the mapping in time.
  Status pages_leave(std::uint32_t wait_ms) {
    return sidecar_.leave(std::chrono::milliseconds(wait_ms));
  }
  // The pages have memory again, at the same addresses.
  void pages_are_back() { sidecar_.back(); }
  // Whether larderd copies.
  bool sidecar_copies() const { return sidecar_.open(); }

  State state() const;
  Status wait_attached(std::uint32_t timeout_ms);
  void log(std::string_view level, std::string_view text) { log_.add(level, text); }
  std::optional<std::string> next_log() { return log_.take(); }

  const Lookups& lookups() const { return lookups_; }
  // Holds chunks from the first on: the handle for release(), and the number of chunks; {0, 0} for
  // none.
  std::pair<std::uint64_t, std::size_t> hold(const Hashes& hashes);
  void release(std::uint64_t hold);
  struct RequestReport {
    std::uint64_t tokens_asked = 0, tokens_hit = 0, lookup_ns = 0;
    protocol::Decision decision = protocol::Decision::kUnknown;
    bool salted = false;  // see protocol::kRequestSalted
  };
  // `hashes`: those of all chunks that the request asked for.
  void report_request(const Hashes& hashes, const RequestReport& request);
  void report(protocol::EventKind kind, std::uint64_t a, std::uint64_t b, std::uint64_t c);

  // Fetches, probes and verbs on chunks.
  LowerTiers& lower_tiers() { return lower_tiers_; }

  // kNotFound: the drop of the namespace is still under way. When the last after_stream()
  // failed: that error.
  Result<std::uint64_t> load(Transfer transfer, std::uint32_t start_within_ms,
                             bool by_layer = false);
  // See Loads. Waits for copies, not for an answer of larderd.
  Status wait_layer(std::uint64_t ticket, std::uint32_t layer, std::uint32_t wait_ms) {
    return loads_.wait_layer(ticket, layer, std::chrono::milliseconds(wait_ms));
  }
  std::vector<Completion> poll(std::size_t max, std::chrono::milliseconds wait = {}) {
    return loads_.poll(max, wait);
  }
  Status store_begin(Transfer transfer);
  // See Stores. When the last after_stream() failed, the begun stores are given back.
  StoreResult store_finish(std::uint32_t wait_ms);
  Result<std::uint64_t> store_submit(std::uint32_t wait_ms);
  std::vector<StoreCompletion> store_poll(std::size_t max, std::chrono::milliseconds wait = {}) {
    return stores_.poll(max, wait);
  }
  void store_overtake(std::uint64_t ticket) { stores_.overtake(ticket); }
  void store_abandon() { stores_.abandon(); }
  // After this call the client finds no chunk that was stored before, in any namespace, even while
  // larderd is away or slow.
  Status drop_namespace();

 private:
  // The control thread exists from set_namespace() on.
  Control* control() const { return control_ready_.load(std::memory_order_acquire); }
  std::shared_ptr<Attachment> current() const { return control() ? control()->current() : nullptr; }
  // The attachment to look up in, or nullptr.
  std::shared_ptr<Attachment> readable(std::uint32_t ns) const {
    return namespaces_.drop_pending(ns) ? nullptr : current();
  }
  // Checks the transfer and completes it for its namespace.
  // `blocks_left_out`: pages may be kNoPage.
  Status check(Transfer& transfer, bool blocks_left_out) const;

  const Options options_;
  ForkGuard fork_guard_;
  LogRing log_;
  NamespaceSpec spec_;
  RegisteredPages pages_{spec_};
  PageCopies copies_;  // outlives all members that copy or hold an arena
  // Its work may wait for a GPU, which the thread with the heartbeat must not do. False: the pool
  // has no room now.
  SidecarCopies sidecar_{copies_, log_, [this](std::function<void()> work) {
                           return pool_.submit(std::make_shared<PoolWork>(std::move(work)));
                         }};
  mutable std::mutex setup_mutex_;
  Namespaces namespaces_{spec_, 0, &log_};
  Lookups lookups_{namespaces_, [this] { return current(); }};
  std::mutex holds_mutex_;
  std::uint64_t last_hold_ = 0;
  std::unordered_map<std::uint64_t, HoldSet> holds_;
  CopyPool pool_;
  Loads loads_;
  Stores stores_;
  LowerTiers lower_tiers_{namespaces_, [this] { return control(); }};
  SessionEvents events_{{namespaces_, pages_, copies_, sidecar_, stores_, lower_tiers_}};
  std::unique_ptr<Control> control_;
  std::atomic<Control*> control_ready_{nullptr};
};

}  // namespace larder::client
