// Sessions of the store: their holds count while they live and beat, their grants outlive them in quarantine.
#include "sidecar/store/store.h"

namespace larder::store {

using protocol::SlotState;

void Store::add_session(SessionNumber number, const protocol::SessionRegion& region) {
  sessions_[number].region = &region;
}

void Store::set_silent(SessionNumber number, bool silent) {
  Session& session = sessions_.at(number);
  session.silent = silent;
  if (silent) quarantine_all(session);
}

bool Store::end_session(SessionNumber number) {
  Session& session = sessions_.at(number);
  session.region = nullptr;
  quarantine_all(session);
  return session.quarantined.count != 0;
}

void Store::release_quarantine(SessionNumber number) {
  Session& session = sessions_.at(number);
  while (session.quarantined.count != 0) {
    const std::uint32_t slot = session.quarantined.first;
    links_.remove(session.quarantined, slot);
    --quarantined_;
    free_slot(slot);
  }
  sessions_.erase(number);
}

std::uint32_t Store::grants_of(SessionNumber number) const {
  const Session& session = sessions_.at(number);
  return session.granted.count + session.quarantined.count;
}

// Its writer may still write: the slot is set aside, and its key is free for others.
void Store::quarantine(Session& session, std::uint32_t slot) {
  index_.erase_key(slot);
  index_.set_state(slot, SlotState::kQuarantined);
  links_.remove(session.granted, slot);
  links_.push_back(session.quarantined, slot);
  --granted_;
  ++quarantined_;
}

void Store::quarantine_all(Session& session) {
  while (session.granted.count != 0) quarantine(session, session.granted.first);
}

}  // namespace larder::store
