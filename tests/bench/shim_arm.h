// ShimArm: one batch of chunks stored and loaded through the whole shim: RESERVE, copy, COMMIT;
// look-up, hold, copy, verification. larderd is a process of its own on another processor.
// Thread-compatible.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "shim/client/client.h"
#include "tests/bench/child.h"

namespace larder::bench {

constexpr unsigned kCopyProcessor = 0;  // of the benchmark; larderd has the others

struct ShimBatch {
  std::byte* kv;  // pages of piece_bytes, one after the other
  std::uint64_t piece_bytes;
  std::uint32_t pieces_per_chunk;
  std::vector<std::uint32_t> order;  // piece i of the batch is on page order[i]
};

class ShimArm {
 public:
  // larderd's files are in `directory`; the arena has arena_bytes, with room for two batches.
  ShimArm(const std::string& directory, const std::string& name, std::uint64_t arena_bytes,
          const ShimBatch& batch);

  // Call this first. Attaches, and stores all chunks once.
  bool warm_up();
  // Gives the chunks other keys, so the next store copies again: larderd evicts the earlier chunks.
  void rename();
  // False: a chunk was not stored, or not loaded and verified.
  bool store();
  // COMMIT is one way, so this waits for larderd. False: not within 10 s.
  bool await_commits() const;
  bool load();

  // The present places of the chunks' payloads, for arms without larderd. Such an arm may write the
  // bytes that a slot already has. REQUIRES: await_commits().
  std::vector<std::byte*> payloads() const;

 private:
  const std::string directory_, name_;
  client::Transfer transfer_;
  Mapping arena_, index_;  // a second mapping of larderd's files
  std::uint64_t last_name_ = 0;
  Child sidecar_;
  std::unique_ptr<client::Client> client_;
};

}  // namespace larder::bench
