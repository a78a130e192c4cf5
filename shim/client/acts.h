// Acts: prefetch, pin, unpin and evict, which larderd does and answers with counts.
//
// Thread-safe. run() waits for larderd as long as it is told, and is for people's tools and for schedulers that can spare the time,
// not for an engine's step: there it waits 0 ms.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "shim/client/attachment.h"
#include "shim/client/lookup.h"

namespace larder::client {

class Acts {
 public:
  // Messages of kMaxKeysPerAct hashes that are not answered yet; more are refused.
  static constexpr std::size_t kMaxWaiting = 64;

  // `attachment` may be nullptr: kUnavailable. With wait_ms 0 the counts are 0. kUnsupported: an older larderd. kOutOfRange: more
  // hashes than could be asked about at once. kResourceExhausted: too many wait already. kDeadlineExceeded: done perhaps, no
  // answer.
  Result<protocol::ActCounts> run(const std::shared_ptr<Attachment>& attachment, protocol::Verb verb, const Hashes& hashes,
                                  std::uint32_t wait_ms);

  // From the control thread.
  void acted(std::uint32_t request, const protocol::Acted& acted);
  void lost(const std::shared_ptr<Attachment>& attachment);

 private:
  struct Call {
    std::shared_ptr<Attachment> attachment;
    protocol::ActCounts counts;
    std::size_t unanswered = 0;
    bool lost = false;
  };
  Status send(const std::shared_ptr<Call>& call, protocol::Verb verb, std::uint32_t handle, const Hashes& hashes);

  std::mutex mutex_;
  std::condition_variable answered_;
  std::uint32_t last_request_ = 0;  // ACTED answers nothing else, so that other requests' numbers do not matter
  std::unordered_map<std::uint32_t, std::shared_ptr<Call>> waiting_;  // by request
};

}  // namespace larder::client
