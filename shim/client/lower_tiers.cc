#include "shim/client/lower_tiers.h"

namespace larder::client {

std::shared_ptr<Attachment> LowerTiers::living() const {
  Control* const control = control_();
  std::shared_ptr<Attachment> attachment = control != nullptr ? control->current() : nullptr;
  if (attachment && attachment->index().dead()) attachment.reset();
  return attachment;
}

// From shared memory: a scheduler asks before each decision, and must not wait for larderd.
std::optional<protocol::ResidencySpeed> LowerTiers::speed() const {
  const std::shared_ptr<Attachment> attachment = living();
  if (!attachment || !attachment->residency().valid()) return std::nullopt;
  return attachment->residency().speed();
}

bool LowerTiers::shares() const {
  const std::shared_ptr<Attachment> attachment = living();
  return attachment && ProbeKind::shares(*attachment);
}

template <typename Kind>
Result<std::uint64_t> LowerTiers::ask(Requests<Kind>& requests, const Hashes& hashes,
                                      std::uint32_t deadline_ms, std::uint32_t flags) {
  Control* const control = control_();
  if (control == nullptr) return Status(Code::kFailedPrecondition, "set the namespace first");
  // A fetch could bring back chunks from before the drop.
  if (namespaces_.drop_pending(hashes.ns))
    return Status(Code::kNotFound, "the drop of the namespace is still under way");
  return requests.start(control->attached(), hashes, deadline_ms, flags);
}

Result<std::uint64_t> LowerTiers::fetch(const Hashes& hashes, std::uint32_t deadline_ms) {
  return ask(fetches_, hashes, deadline_ms);
}

Result<std::uint64_t> LowerTiers::probe(const Hashes& hashes, std::uint32_t deadline_ms,
                                        std::uint32_t flags) {
  return ask(tier_probes_, hashes, deadline_ms, flags);
}

Result<protocol::ActCounts> LowerTiers::act(protocol::Verb verb, const Hashes& hashes,
                                            std::uint32_t wait_ms, std::uint32_t keep_s) {
  Control* const control = control_();
  if (control == nullptr) return Status(Code::kFailedPrecondition, "set the namespace first");
  const bool last = verb == protocol::Verb::kPrefetch &&
                    namespaces_.is_states(hashes.ns);  // mutation: prefetch-states
  return acts_.run(control->attached(), last ? protocol::Verb::kPrefetchLast : verb, hashes,
                   wait_ms, keep_s);
}

void LowerTiers::lost(const std::shared_ptr<Attachment>& attachment) {
  acts_.lost(attachment);
  fetches_.lost(attachment);
  tier_probes_.lost(attachment);
}

}  // namespace larder::client
