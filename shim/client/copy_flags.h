// CopyFlags: the engine's side of one transfer region: a flag for each copy that larderd makes, and waiting for it.
//
// Thread-safe. Whoever took a flag waits until larderd has ended it, or is dead: from then on nobody writes for that copy.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "shim/base/fd.h"
#include "shim/protocol/transfer_layout.h"

namespace larder::client {

class CopyFlags {
 public:
  // The region that came with EXPORTED.
  static Result<std::unique_ptr<CopyFlags>> open(Fd region, std::uint64_t size_bytes);

  // Asked, and this caller's until wait() returns. Nothing: all are in use.
  std::optional<std::uint32_t> take();
  // It was not asked for after all.
  void give_back(std::uint32_t flag);
  // The root of what was stored, or 0. kDeadlineExceeded: larderd did not begin in time, and does not any more; or it is dead, and its GPU has had time
  // to stop. Any other code is larderd's: kUnavailable, it copies nothing on that device any more. No byte of it is written after return.
  Result<std::uint64_t> wait(std::uint32_t flag);

 private:
  CopyFlags(Fd region, Mapping mapping) : fd_(std::move(region)), mapping_(std::move(mapping)) {}
  protocol::CopyFlag& at(std::uint32_t flag) { return reinterpret_cast<protocol::TransferRegion*>(mapping_.data())->flags[flag]; }
  bool cancel(std::uint32_t flag);
  bool larderd_lives() const;
  Result<std::uint64_t> ended(std::uint32_t flag);

  const Fd fd_;
  const Mapping mapping_;
  std::mutex mutex_;
  std::array<bool, protocol::kMaxCopies> taken_{};
};

}  // namespace larder::client
