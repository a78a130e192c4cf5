// SubmitArm: the cost for an engine's thread to ask for a load, from the stream's fence to the
// ticket, with chunks of 576 pieces over a larderd of its own. Every load is verified before its
// figure counts. Thread-compatible.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "shim/client/client.h"
#include "tests/bench/child.h"

namespace larder::bench {

class SubmitArm {
 public:
  // of an 8B-shaped model, 16,384 tokens
  static constexpr std::uint32_t kLayers = 36, kBlocks = 16, kMostChunks = 64;
  // the cost does not depend on this
  static constexpr std::uint64_t kPieceBytes = 4096;
  static constexpr std::uint64_t kPageBytes = kLayers * kBlocks * kMostChunks * kPieceBytes;

  // larderd's files are in `directory`. REQUIRES: made before this process has threads.
  explicit SubmitArm(const std::string& directory);
  // Stores chunks from these pages, kPageBytes in all. False: larderd is away, or did not take all
  // chunks.
  bool attach(std::byte* pages);
  // Median microseconds to ask for a load of `chunks` chunks. nullopt: a load failed. REQUIRES:
  // attach().
  std::optional<double> median_us(std::uint32_t chunks) const;

 private:
  client::Transfer transfer(std::uint32_t chunks) const;
  const std::string socket_;
  Child sidecar_;
  std::unique_ptr<client::Client> client_;
};

}  // namespace larder::bench
