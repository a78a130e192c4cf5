#include "shim/client/tier_probes.h"

#include <algorithm>

namespace larder::client {

bool ProbeKind::shares(const Attachment& attachment) {
  return attachment.residency().valid() &&
         (attachment.welcome().capabilities & protocol::kCapabilityShared) != 0;
}

// A larderd before 1.7 would answer a kProbeEach with a prefix.
Status ProbeKind::served(const Attachment& attachment, std::uint32_t flags) {
  if (!shares(attachment)) return {Code::kUnsupported, "this larderd shares no backend"};
  if ((flags & protocol::kProbeEach) != 0 &&
      attachment.welcome().version_minor < 7)  // mutation: probe-each-old
    return {Code::kUnsupported, "this larderd is older than probes of each chunk"};
  return {};
}

// Counts above the number of asked chunks, and bits behind it, are hostile, and are cut.
ProbeState ProbeKind::read(const ProbeAnswer& answer, std::uint64_t asked, std::uint32_t age_us) {
  const protocol::Probed& probed = answer.probed;
  const std::uint64_t chunks = std::min<std::uint64_t>(probed.families, asked);
  ProbeState state{false,
                   chunks,
                   std::min<std::uint64_t>(probed.shared, chunks),
                   probed.read_latency_ns,
                   probed.read_bytes_per_s,
                   static_cast<protocol::ProbeEnd>(probed.reason),
                   age_us,
                   answer.each.there};
  for (std::uint64_t i = asked; i < 64 * state.there.size(); ++i)
    // The caller indexes its own hashes with these bits.
    state.there[i / 64] &= ~(std::uint64_t{1} << i % 64);
  return state;
}

}  // namespace larder::client
