// HoldExchange: the mailbox between the thread that serves peers and the thread of the store. The
// server asks for chunks to be held, and gives held chunks back; the store answers.
//
// A held chunk stays in memory unchanged until the server gave it back. Requests without an answer
// are bounded. One mutex guards all state and is never held during I/O. Thread-safe, except open().
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/tiers/tier.h"

namespace larder::peer {

struct HoldRequest {
  std::uint64_t connection = 0;       // of the server; the reply has the same
  std::vector<tiers::ChunkKey> keys;  // of one namespace
  bool hold = true;                   // false: only the facts
  bool read = false;                  // the bytes follow at once: a larger budget
};

// A chunk in memory.
struct HeldChunk {
  tiers::ChunkFacts facts;
  std::span<const std::byte> slot;  // valid while held
  std::uint32_t slot_number = 0;
  bool held = false;  // false: over the budget, or not wanted
};

struct HoldReply {
  std::uint64_t connection = 0;
  std::vector<std::optional<HeldChunk>> chunks;  // one for each key
};

class HoldExchange {
 public:
  static constexpr std::size_t kMostOpen = 512;  // requests without an answer

  HoldExchange() = default;
  HoldExchange(const HoldExchange&) = delete;

  // Makes the descriptor of requests. Once, before any other call.
  Status open();
  // Called under the mutex after each answer. Must not block.
  void set_wake(std::function<void()> wake);

  // For the server. Each request is answered once, in order. False: refused, too many are open.
  bool ask(HoldRequest request);
  void give_back(std::vector<HeldChunk> chunks);
  std::vector<HoldReply> take_replies();

  // For the store. Readable while requests or returned chunks wait.
  int request_fd() const { return request_fd_.get(); }
  struct Waiting {
    std::vector<HoldRequest> requests;
    std::vector<HeldChunk> given_back;
  };
  Waiting take_requests();
  void answer(HoldReply reply);

 private:
  void tell() const;

  Fd request_fd_;
  std::mutex mutex_;
  std::function<void()> wake_;
  Waiting waiting_;
  std::size_t open_ = 0;  // requests without an answer
  std::vector<HoldReply> replies_;
};

}  // namespace larder::peer
