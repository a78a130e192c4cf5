// CopyFlags: the engine's side of one transfer region: one flag for each copy by larderd, and the
// wait for its end.
//
// Thread-safe. The owner of a flag waits until larderd has ended the flag or is dead. After that,
// no process writes for the copy.
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
  // Maps the region of EXPORTED.
  static Result<std::unique_ptr<CopyFlags>> open(Fd region, std::uint64_t size_bytes);

  // A flag in state `asked`; the caller owns the flag until wait() returns. nullopt: all are in
  // use.
  std::optional<std::uint32_t> take();
  // Returns a flag whose COPY was not sent.
  void give_back(std::uint32_t flag);
  // The root of a store; 0 for a load. No byte of the copy is written after return. Errors:
  //   kDeadlineExceeded  larderd did not begin in time and never will, or larderd is dead and its
  //                      GPU has had time to stop
  //   kUnavailable       larderd copies no more on this device
  //   other codes        larderd's own
  Result<std::uint64_t> wait(std::uint32_t flag);

 private:
  CopyFlags(Fd region, Mapping mapping) : fd_(std::move(region)), mapping_(std::move(mapping)) {}
  protocol::CopyFlag& at(std::uint32_t flag) {
    return reinterpret_cast<protocol::TransferRegion*>(mapping_.data())->flags[flag];
  }
  bool cancel(std::uint32_t flag);
  bool larderd_lives() const;
  Result<std::uint64_t> ended(std::uint32_t flag);

  const Fd fd_;
  const Mapping mapping_;
  std::mutex mutex_;
  std::array<bool, protocol::kMaxCopies> taken_{};
};

}  // namespace larder::client
