// Fetches: questions by which larderd promotes chunks from lower tiers into memory, each for one
// waiting request.
//
// See Requests for the life of a fetch. larderd keeps the fetched chunks in memory until end().
// Chunks that arrive after the deadline are found by the next look-up, but are not kept for the
// fetch.
#pragma once

#include <cstdint>

#include "shim/client/requests.h"

namespace larder::client {

struct FetchState {
  bool running = true;
  std::uint64_t chunks = 0;  // from the first on: whole in memory, kept until end()
  protocol::FetchEnd reason = protocol::FetchEnd::kAll;
  std::uint64_t bytes = 0;       // read for the fetch
  std::uint32_t elapsed_us = 0;  // as larderd measured
};

struct FetchKind {
  using State = FetchState;
  using Ask = protocol::Fetch;
  using Answer = protocol::Fetched;
  static constexpr protocol::MessageType kAsk = protocol::MessageType::kFetch;
  static constexpr std::uint32_t kMost = protocol::kMaxFetches;
  static constexpr std::uint32_t kMostHashes = protocol::kMaxKeysPerFetch;
  static constexpr const char* kName = "fetch";

  static Status served(const Attachment& attachment, std::uint32_t flags);
  static FetchState read(const protocol::Fetched& fetched, std::uint64_t asked,
                         std::uint32_t age_us);
  static void give_free(Attachment& attachment, std::uint32_t request);
};

using Fetches = Requests<FetchKind>;

}  // namespace larder::client
