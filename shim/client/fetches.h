// Fetches: chunks that larderd brings into memory from the tier below it, each time for one request that waits for them.
//
// Thread-safe. A fetch ends by its deadline, counted here, also where larderd is stopped and never answers: whoever waits for one
// waits no longer than it said. Nothing waits for larderd but poll(), as long as it is told.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "shim/client/attachment.h"
#include "shim/client/lookup.h"

namespace larder::client {

struct FetchState {
  bool running = true;
  std::uint64_t chunks = 0;  // from the first on: whole in memory, and kept there until end()
  protocol::FetchEnd reason = protocol::FetchEnd::kAll;
  std::uint64_t bytes = 0;  // read for it
  std::uint32_t elapsed_us = 0;
};

class Fetches {
 public:
  // For larderd's answer to arrive that was sent at the deadline.
  static constexpr std::chrono::milliseconds kAnswerGrace{15};

  // Asks for the chunks of `hashes`, at most the first kMaxKeysPerFetch, and returns the fetch's ticket, for poll() and end().
  // `attachment` may be nullptr: kUnavailable. kUnsupported: this larderd has no tier. kInvalidArgument: no hashes, or no deadline.
  // kResourceExhausted: kMaxFetches have not been ended.
  Result<std::uint64_t> start(const std::shared_ptr<Attachment>& attachment, const Hashes& hashes, std::uint32_t deadline_ms);
  // How it stands; waits until it ends where it runs, at most so long. kNotFound: no such fetch, or it was ended.
  Result<FetchState> poll(std::uint64_t ticket, std::uint32_t wait_ms);
  // Gives the kept chunks free, or cancels what still runs. Of an unknown ticket nothing.
  void end(std::uint64_t ticket);

  // From the control thread.
  void fetched(const std::shared_ptr<Attachment>& attachment, std::uint32_t request, const protocol::Fetched& fetched);
  void lost(const std::shared_ptr<Attachment>& attachment);

 private:
  using Clock = std::chrono::steady_clock;
  struct Fetch {
    std::shared_ptr<Attachment> attachment;  // nullptr once its session is lost
    Clock::time_point started, ends_at;
    std::uint64_t asked = 0;
    FetchState state;
  };
  void end_late(Fetch& fetch) const;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::uint32_t last_request_ = 0;                    // the ticket; FETCHED answers nothing but fetches
  std::unordered_map<std::uint64_t, Fetch> fetches_;  // by ticket
};

}  // namespace larder::client
