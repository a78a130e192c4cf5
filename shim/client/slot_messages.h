// Helpers for messages about slots: the status of a grant, and lists split into messages within
// limits.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "shim/client/outbox.h"
#include "shim/protocol/codec.h"

namespace larder::client {

inline bool is_granted(const protocol::Grant& grant) {
  return grant.status == static_cast<std::uint32_t>(protocol::GrantStatus::kGranted);
}

// False: the session is lost.
template <typename Record>
bool send_list(Outbox& outbox, protocol::MessageType type, const std::vector<Record>& records) {
  std::span<const Record> rest(records);
  while (!rest.empty()) {
    const auto part =
        rest.first(std::min<std::size_t>(rest.size(), protocol::kMaxGrantsPerMessage));
    rest = rest.subspan(part.size());
    protocol::Encoder message(type, 0);
    message.append(protocol::SlotList{static_cast<std::uint32_t>(part.size()), 0}).append_all(part);
    if (!outbox.send(message.packet())) return false;
  }
  return true;
}

}  // namespace larder::client
