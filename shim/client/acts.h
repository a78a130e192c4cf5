// Acts: prefetch, pin, unpin, evict, demote, keep. larderd does the work and answers with counts.
//
// Thread-safe. run() waits for larderd at most wait_ms. Tools, and schedulers with time to spare,
// may wait; an engine's step must pass 0.
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
  // Messages without an answer, each of up to kMaxKeysPerAct hashes; run() refuses more.
  static constexpr std::size_t kMaxWaiting = 64;

  // kPrefetchLast looks at the last kMaxKeysPerAct hashes alone, and becomes kPrefetch for a
  // larderd before protocol 1.7. With wait_ms 0 the counts are 0. Errors: kUnavailable,
  // `attachment` is nullptr or the session is lost; kUnsupported, an older larderd (kDemote: before
  // protocol 1.10, kKeep: before 1.11); kOutOfRange, more hashes than kMaxWaiting messages take;
  // kResourceExhausted, too many messages wait for an answer; kDeadlineExceeded, no answer yet, and
  // larderd may still do the work.
  Result<protocol::ActCounts> run(const std::shared_ptr<Attachment>& attachment,
                                  protocol::Verb verb, const Hashes& hashes, std::uint32_t wait_ms,
                                  std::uint32_t keep_s = 0);

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
  Status send(const std::shared_ptr<Call>& call, protocol::Verb verb, std::uint32_t handle,
              const Hashes& hashes, std::uint32_t keep_s);

  std::mutex mutex_;
  std::condition_variable answered_;
  // Numbers of other classes may be equal: ACTED answers ACT alone.
  std::uint32_t last_request_ = 0;
  std::unordered_map<std::uint32_t, std::shared_ptr<Call>> waiting_;  // by request
};

}  // namespace larder::client
