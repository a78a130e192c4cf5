// Engine: a fake inference engine over the shim's client, for forked processes.
//
// Used by one thread. The copy engine is the host's, with a switch that rejects good bytes.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/crash/chunk_pages.h"
#include "tests/unit/client/copies.h"

namespace larder::crash {

// A copy engine that can reject good bytes: the sidecar then verifies the chunk itself.
class FaultFinder final : public client::testing_support::HostCopies {
 public:
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const copy::PieceList& to) const override {
    if (finds_fault) return {Code::kDataLoss, "told to"};
    return HostCopies::load(slot, root, to);
  }
  // True for a GPU's copy engine.
  bool outlives_process() const override { return is_a_device; }
  std::atomic<bool> finds_fault{false}, is_a_device{false};
};

// Memory for kChunks chunks, and the shim's client. Each call may wait for larderd for the given
// time.
class Engine {
 public:
  static constexpr std::uint32_t kChunks = 32;  // the most chunks of one call

  // Engines with equal `space` and equal `group` share chunks.
  explicit Engine(const std::string& socket, std::uint64_t space = 0,
                  const client::Group& group = ChunkPages::kGroup)
      : socket_(socket), client_({socket, "victim", 1}, copies_), pages_(kChunks, group) {
    client::NamespaceSpec spec;
    spec.fingerprint = "engine: victim " + std::to_string(space) + "\n";
    spec.model = "victim";
    spec.shard_count = 1;
    spec.chunk_tokens = 256;
    spec.groups = {group};
    ready_ = client_.set_namespace(spec).ok() && client_.register_pages(0, pages_.layers()).ok();
  }
  bool attached() { return ready_ && client_.wait_attached(10'000).ok(); }
  bool present(std::uint64_t key) const { return lookup(pages_.transfer({key})) == 1; }

  // Asks for the grants of a store.
  bool begin(const std::vector<std::uint64_t>& keys, std::uint64_t generation) {
    for (std::uint32_t place = 0; place < keys.size(); ++place)
      pages_.fill(place, keys[place], generation);
    return client_.store_begin(pages_.transfer(keys)).ok();
  }
  std::uint64_t store(const std::vector<std::uint64_t>& keys, std::uint64_t generation,
                      std::uint32_t wait_ms) {
    return begin(keys, generation) ? client_.store_finish(wait_ms).stored : 0;
  }
  // The same on threads of the client, with a wait for the end.
  std::uint64_t submit(const std::vector<std::uint64_t>& keys, std::uint64_t generation,
                       std::uint32_t wait_ms) {
    if (!begin(keys, generation) || !client_.store_submit(wait_ms).ok()) return 0;
    std::vector<client::StoreCompletion> done;
    while (done.empty()) done = client_.store_poll(1, std::chrono::seconds(1));
    return done[0].result.stored;
  }
  Code load(const std::vector<std::uint64_t>& keys) {
    pages_.wipe();
    const Result<std::uint64_t> ticket = client_.load(pages_.transfer(keys), 5000);
    if (!ticket.ok()) return ticket.status().code();
    std::vector<client::Completion> done;
    while (done.empty()) {
      done = client_.poll(1);
      if (done.empty()) ::usleep(50);
    }
    return done[0].status;
  }
  bool holds_bytes_of(const std::vector<std::uint64_t>& keys) {
    bool right = true;
    for (std::uint32_t place = 0; place < keys.size(); ++place)
      right = right && pages_.holds(place, keys[place]);
    return right;
  }
  bool holds_bytes_of(const std::vector<std::uint64_t>& keys, std::uint64_t generation) {
    bool right = true;
    for (std::uint32_t place = 0; place < keys.size(); ++place)
      right = right && pages_.holds(place, keys[place], generation);
    return right;
  }
  // In memory or below.
  bool reachable(std::uint64_t key) const {
    const client::Transfer transfer = pages_.transfer({key});
    return client_.lookups().reachable(hashes(transfer)) == 1;
  }
  struct Fetched {
    std::uint64_t ticket = 0;  // for Fetches::end(), unless 0
    bool whole = false, read = false;
  };
  // Waits until the chunk is in memory, kept until Fetches::end(), or is known not to come.
  Fetched fetch(std::uint64_t key, std::uint32_t deadline_ms) {
    const client::Transfer transfer = pages_.transfer({key});
    const Result<std::uint64_t> ticket = client_.lower_tiers().fetch(hashes(transfer), deadline_ms);
    if (!ticket.ok()) return {};
    const Result<client::FetchState> state =
        client_.lower_tiers().fetches().poll(*ticket, 2 * deadline_ms);
    if (!state.ok()) return {*ticket};
    return {*ticket, state->chunks == 1, state->bytes != 0};
  }
  // True: larderd has done the verb.
  bool act(protocol::Verb verb, std::uint64_t key, std::uint32_t wait_ms) {
    const client::Transfer transfer = pages_.transfer({key});
    return client_.lower_tiers().act(verb, hashes(transfer), wait_ms).ok();
  }
  // From here on copies count as copies by a GPU, which may go on for a moment after the engine's
  // death.
  void copies_as_a_device() { copies_.is_a_device = true; }
  void load_in_bad_faith(const std::vector<std::uint64_t>& keys) {
    copies_.finds_fault = true;
    load(keys);
    copies_.finds_fault = false;
  }
  // Holds and later releases, like a scheduler.
  void hold(const std::vector<std::uint64_t>& keys) {
    if (const std::uint64_t held = hold_all(keys); held != 0) client_.release(held);
  }
  // Ends this process's connection to larderd, like a full outbox.
  void cut_off() {
    for (int fd = 3; fd < 256; ++fd) {
      sockaddr_un peer{};
      socklen_t bytes = sizeof(peer);
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
          peer.sun_path == socket_)
        ::shutdown(fd, SHUT_RDWR);
    }
  }
  // The session is lost between the grants and the copies.
  void store_cut_off(const std::vector<std::uint64_t>& keys, std::uint64_t generation) {
    if (!begin(keys, generation)) return;
    ::usleep(2000);  // for the answer
    cut_off();
    client_.store_finish(50);
    static_cast<void>(attached());
  }
  void drop() { static_cast<void>(client_.drop_namespace()); }

  // Opens another namespace beside the engine's own; nullopt: larderd has not opened the namespace
  // within wait_ms.
  std::optional<std::uint32_t> open_adapter(const std::string& text, std::uint32_t wait_ms) {
    const Result<std::uint32_t> number = client_.add_namespace(text, "victim");
    if (!number.ok()) return std::nullopt;
    if (client_.wait_namespace(*number, wait_ms).ok()) return *number;
    close_adapter(*number, false);
    return std::nullopt;
  }
  void close_adapter(std::uint32_t number, bool drop) {
    static_cast<void>(client_.close_namespace(number, drop));
  }
  // From here on all calls above use this namespace. 0: the engine's own.
  void work_in(std::uint32_t number) { pages_.work_in(number); }

  client::Client& client() { return client_; }
  // A hold on all chunks, for release() of the client. 0: a chunk is missing, and no chunk is held.
  std::uint64_t hold_all(const std::vector<std::uint64_t>& keys) {
    const client::Transfer transfer = pages_.transfer(keys);
    const auto [hold, chunks] = client_.hold(hashes(transfer));
    if (chunks == keys.size()) return hold;
    if (hold != 0) client_.release(hold);
    return 0;
  }

 private:
  static client::Hashes hashes(const client::Transfer& transfer) {
    return {reinterpret_cast<const std::uint8_t*>(transfer.hashes.data()),
            sizeof(protocol::BlockHash), transfer.hashes.size(), transfer.ns};
  }
  std::size_t lookup(const client::Transfer& transfer) const {
    return client_.lookups().present(hashes(transfer));
  }

  const std::string socket_;
  FaultFinder copies_;
  client::Client client_;
  ChunkPages pages_;
  bool ready_ = false;
};

}  // namespace larder::crash
