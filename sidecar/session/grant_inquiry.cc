#include "sidecar/session/grant_inquiry.h"

#include <algorithm>
#include <unordered_set>

#include "shim/protocol/codec.h"
#include "sidecar/base/log_throttle.h"

namespace larder::session {

// The lock of an engine shows its life but not its progress: a store that the engine forgot would
// keep its slot for ever. Hence the question.
std::vector<std::vector<std::byte>> GrantInquiry::tick(store::SessionNumber session,
                                                       store::Store& store, stats::Stats& stats,
                                                       std::uint64_t now_ms,
                                                       const GrantAges& ages) {
  if (open_ && now_ms - began_ms_ > protocol::kGrantAnswerMs) close(session, store, stats);
  // At most one inquiry in a grant age: an engine with long stores gets no question at every tick.
  if (open_ || now_ms - began_ms_ < ages.age_ms()) return {};
  store.sessions().overdue(session, ages.overdue(), asked_);
  if (asked_.empty()) return {};
  open_ = true;
  began_ms_ = now_ms;
  stats.grants_asked += asked_.size();
  std::vector<std::vector<std::byte>> packets;
  for (std::span<const protocol::SlotRef> rest(asked_); !rest.empty();) {
    const auto part =
        rest.first(std::min<std::size_t>(rest.size(), protocol::kMaxGrantsPerMessage));
    rest = rest.subspan(part.size());
    // Request number 0: the engine answers with STILL_WRITING, COMMIT or DISOWN, whenever ready.
    protocol::Encoder encoder(protocol::MessageType::kAskGrants, 0);
    encoder.append(protocol::SlotList{static_cast<std::uint32_t>(part.size()), 0}).append_all(part);
    const auto packet = encoder.packet();
    packets.emplace_back(packet.begin(), packet.end());
  }
  return packets;
}

void GrantInquiry::still_writing(std::span<const protocol::SlotRef> slots) {
  // A generation is unique for each grant, so the slot number need not be compared. A set: both
  // lists may have kMaxGrantsPerMessage entries.
  std::unordered_set<std::uint64_t> generations;
  for (const protocol::SlotRef& slot : slots) generations.insert(slot.generation);
  std::erase_if(asked_, [&](const protocol::SlotRef& slot) {
    return generations.contains(slot.generation);
  });  // mutation: written-stays
}

void GrantInquiry::close(store::SessionNumber session, store::Store& store, stats::Stats& stats) {
  std::uint32_t set_aside = 0;
  for (const protocol::SlotRef& slot : asked_)
    // A grant that the engine committed or disowned meanwhile is no grant any more, and counts 0
    // here.
    set_aside += store.sessions().quarantine_grant(session, slot);  // mutation: silent-inquiry
  asked_.clear();
  open_ = false;
  stats.grants_unanswered += set_aside;
  if (set_aside != 0)
    base::log_from("grants not answered for", base::LogLevel::kWarning,
                   "session " + std::to_string(session) + " was asked about " +
                       std::to_string(set_aside) +
                       " old grants and did not answer: the grants are quarantined");
}

}  // namespace larder::session
