#include "shim/client/tier_probes.h"

#include <algorithm>

namespace larder::client {

bool ProbeKind::shares(const Attachment& attachment) {
  return attachment.below().valid() && (attachment.welcome().capabilities & protocol::kCapabilityShared) != 0;
}

Status ProbeKind::served(const Attachment& attachment) {
  if (shares(attachment)) return {};
  return {Code::kUnsupported, "this larderd shares no backend"};
}

// Counts above the number of asked chunks are hostile, and are cut.
ProbeState ProbeKind::read(const protocol::Probed& probed, std::uint64_t asked, std::uint32_t age_us) {
  const std::uint64_t chunks = std::min<std::uint64_t>(probed.families, asked);
  return {false,
          chunks,
          std::min<std::uint64_t>(probed.shared, chunks),
          probed.read_latency_ns,
          probed.read_bytes_per_s,
          static_cast<protocol::ProbeEnd>(probed.reason),
          age_us};
}

}  // namespace larder::client
