// ShimArm: one batch of chunks stored and loaded through the whole shim: RESERVE, copy, COMMIT; look-up, hold, copy, verification.
// larderd is a process of its own on another processor. Thread-compatible.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "shim/client/client.h"
#include "tests/bench/child.h"

namespace larder::bench {

constexpr unsigned kCopyProcessor = 0;  // the benchmark's; larderd has the others

struct ShimBatch {
  std::byte* kv;  // pages of piece_bytes, one after the other
  std::uint64_t piece_bytes;
  std::uint32_t pieces_per_chunk;
  std::vector<std::uint32_t> order;  // piece i of the batch stands on page order[i]
};

class ShimArm {
 public:
  // larderd's files stand in `directory`, its arena has arena_bytes: room for two batches.
  ShimArm(const std::string& directory, const std::string& name, std::uint64_t arena_bytes, const ShimBatch& batch);

  // Attached, and everything was stored once. Call first.
  bool warm_up();
  // Gives the chunks other keys, so that the next store copies again: larderd evicts the earlier ones for them.
  void rename();
  // False: not every chunk was stored, or loaded and verified.
  bool store();
  // COMMIT is one way: false where larderd has not taken it within 10 s.
  bool await_commits() const;
  bool load();

  // The same slots for arms that go without larderd: where each chunk's payload stands now. They may write there what it holds already.
  // REQUIRES: await_commits().
  std::vector<std::byte*> payloads() const;

 private:
  const std::string directory_, name_;
  client::Transfer transfer_;
  Mapping arena_, index_;  // larderd's own files, mapped once more
  std::uint64_t last_name_ = 0;
  Child sidecar_;
  std::unique_ptr<client::Client> client_;
};

}  // namespace larder::bench
