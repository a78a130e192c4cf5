// TransferMemory: the transfer region of one session: a sealed memfd, with a lock that shows the
// engine that larderd lives.
//
// The thread of the loop makes the region; the copy threads write the flags. The lock ends with the
// descriptor.
#pragma once

#include "shim/base/fd.h"
#include "shim/protocol/transfer_layout.h"

namespace larder::transfer {

class TransferMemory {
 public:
  static Result<TransferMemory> create();

  // The descriptor to send, which stays open here. Closing another descriptor of the file in this
  // process would drop the lock.
  int fd() const { return fd_.get(); }
  static constexpr std::uint64_t size_bytes() { return sizeof(protocol::TransferRegion); }

  // Takes a flag before a copy begins. False: the engine has taken the flag back, or never asked. A
  // flag that is not taken within protocol::kCopyTakenMs is taken back.
  bool take(std::uint32_t flag);
  // Whether the engine has taken the flag back. The engine can write another value at any time.
  bool cancelled(std::uint32_t flag);
  // Ends a flag after its copy, successful or not, and wakes the engine. REQUIRES: no byte of the
  // copy is written afterwards.
  void end(std::uint32_t flag, Code code, std::uint64_t root);

 private:
  protocol::TransferRegion& region() {
    return *reinterpret_cast<protocol::TransferRegion*>(mapping_.data());
  }
  Fd fd_;
  Mapping mapping_;
};

}  // namespace larder::transfer
