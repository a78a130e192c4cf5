// TierProbes: questions about the number of chunks that a fetch would find, and the speed of the
// fetch, each for one waiting request. No region shows the chunks that other larderd put into the
// shared backend, so larderd is asked.
//
// See Requests for the life of a probe. larderd keeps no state of an answered probe, so end() sends
// no message.
#pragma once

#include <array>
#include <cstdint>

#include "shim/client/requests.h"

namespace larder::client {

// A hint: a chunk may be gone when it is fetched.
struct ProbeState {
  bool running = true;
  std::uint64_t chunks = 0;  // from the first on: in memory, or in a tier that a fetch reads
  std::uint64_t shared = 0;  // the part of `chunks` in the backend alone
  std::uint64_t read_latency_ns = 0;   // of a fetch of the chunks that are not in memory
  std::uint64_t read_bytes_per_s = 0;  // of the same fetch; 0: do not fetch
  protocol::ProbeEnd reason = protocol::ProbeEnd::kAll;
  std::uint32_t elapsed_us = 0;  // from the question to the answer: the cost of asking
  // Where each hash was asked about by itself: bit i % 64 of word i / 64 tells that a fetch finds
  // chunk i. `chunks` is then the number of the last such chunk, and the figures are of that chunk.
  std::array<std::uint64_t, protocol::kMaxKeysPerProbe / 64> there{};
};

struct ProbeAnswer {
  protocol::Probed probed;
  protocol::ProbedEach each;
};

struct ProbeKind {
  using State = ProbeState;
  using Ask = protocol::Probe;
  using Answer = ProbeAnswer;
  static constexpr protocol::MessageType kAsk = protocol::MessageType::kProbe;
  static constexpr std::uint32_t kMost = protocol::kMaxProbes;
  static constexpr std::uint32_t kMostHashes = protocol::kMaxKeysPerProbe;
  static constexpr const char* kName = "probe";

  // Whether the larderd of this session shares a backend, and fetches from it.
  static bool shares(const Attachment& attachment);
  // `flags`: of protocol::Probe.
  static Status served(const Attachment& attachment, std::uint32_t flags);
  static ProbeState read(const ProbeAnswer& answer, std::uint64_t asked, std::uint32_t age_us);
  static void give_free(Attachment& /*attachment*/, std::uint32_t /*request*/) {}
};

using TierProbes = Requests<ProbeKind>;

}  // namespace larder::client
