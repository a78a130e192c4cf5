// Fetches: chunks that larderd brings into memory from the tiers below it, each time for one request that waits for them.
//
// See Requests for how one is begun, waited for and ended. What came late all the same is found by the look-up that follows, but
// larderd keeps none of it for the fetch; what it keeps is given free by end() alone.
#pragma once

#include <cstdint>

#include "shim/client/requests.h"

namespace larder::client {

struct FetchState {
  bool running = true;
  std::uint64_t chunks = 0;  // from the first on: whole in memory, and kept there until end()
  protocol::FetchEnd reason = protocol::FetchEnd::kAll;
  std::uint64_t bytes = 0;       // read for it
  std::uint32_t elapsed_us = 0;  // larderd's count of it
};

struct FetchKind {
  using State = FetchState;
  using Ask = protocol::Fetch;
  using Answer = protocol::Fetched;
  static constexpr protocol::MessageType kAsk = protocol::MessageType::kFetch;
  static constexpr std::uint32_t kMost = protocol::kMaxFetches;
  static constexpr std::uint32_t kMostHashes = protocol::kMaxKeysPerFetch;
  static constexpr const char* kName = "fetch";

  static Status served(const Attachment& attachment);
  static FetchState read(const protocol::Fetched& fetched, std::uint64_t asked, std::uint32_t age_us);
  static void give_free(Attachment& attachment, std::uint32_t request);
};

using Fetches = Requests<FetchKind>;

}  // namespace larder::client
