// TierProbes: how many chunks a fetch would find, also in the backend that this larderd shares with others, and how fast. What others have
// put there no region shows, so it is asked, each time for one request that waits for it.
//
// See Requests for how one is begun, waited for and ended. larderd keeps nothing for it and is not told of its end.
#pragma once

#include <cstdint>

#include "shim/client/requests.h"

namespace larder::client {

// A hint: what is there may be gone when it is fetched.
struct ProbeState {
  bool running = true;
  std::uint64_t chunks = 0;            // from the first on: in memory, or where a fetch reads them
  std::uint64_t shared = 0;            // of these, those in the backend alone
  std::uint64_t read_latency_ns = 0;   // of a fetch of those that are not in memory
  std::uint64_t read_bytes_per_s = 0;  // 0: fetch nothing
  protocol::ProbeEnd reason = protocol::ProbeEnd::kAll;
  std::uint32_t elapsed_us = 0;  // until the answer was here: what asking costs
};

struct ProbeKind {
  using State = ProbeState;
  using Ask = protocol::Probe;
  using Answer = protocol::Probed;
  static constexpr protocol::MessageType kAsk = protocol::MessageType::kProbe;
  static constexpr std::uint32_t kMost = protocol::kMaxProbes;
  static constexpr std::uint32_t kMostHashes = protocol::kMaxKeysPerProbe;
  static constexpr const char* kName = "probe";

  // Whether the larderd of this session shares a backend, and fetches from it.
  static bool shares(const Attachment& attachment);
  static Status served(const Attachment& attachment);
  static ProbeState read(const protocol::Probed& probed, std::uint64_t asked, std::uint32_t age_us);
  static void give_free(Attachment& /*attachment*/, std::uint32_t /*request*/) {}
};

using TierProbes = Requests<ProbeKind>;

}  // namespace larder::client
