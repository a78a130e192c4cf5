#include "shim/client/fetches.h"

#include <algorithm>

namespace larder::client {

Status FetchKind::served(const Attachment& attachment, std::uint32_t /*flags*/) {
  if (attachment.residency().valid()) return {};
  return {Code::kUnsupported, "this larderd has no tier below memory"};
}

// A count above the number of asked chunks is hostile, and is cut.
FetchState FetchKind::read(const protocol::Fetched& fetched, std::uint64_t asked,
                           std::uint32_t /*age_us*/) {
  return {false, std::min<std::uint64_t>(fetched.families, asked),
          static_cast<protocol::FetchEnd>(fetched.reason), fetched.bytes, fetched.elapsed_us};
}

void FetchKind::give_free(Attachment& attachment, std::uint32_t request) {
  protocol::Encoder message(protocol::MessageType::kFetchEnd, 0);
  message.append(protocol::EndFetch{request, 0});
  // A lost session needs no message: larderd frees the chunks of a session with the session.
  attachment.outbox().send(message.packet());
}

}  // namespace larder::client
