// TransferMemory: the transfer region of one session: a sealed memfd, and the lock on it by which the engine sees that this process lives.
//
// Made by the loop's thread; its flags are written by the threads that copy. The lock goes with the descriptor.
#pragma once

#include "shim/base/fd.h"
#include "shim/protocol/transfer_layout.h"

namespace larder::transfer {

class TransferMemory {
 public:
  static Result<TransferMemory> create();

  // To send; it stays open here. Closing another descriptor of it in this process would drop the lock.
  int fd() const { return fd_.get(); }
  static constexpr std::uint64_t size_bytes() { return sizeof(protocol::TransferRegion); }

  // False: the engine has taken it back, or never asked.
  bool take(std::uint32_t flag);
  // The engine says that it has taken it back. It can write another thing there at any time.
  bool cancelled(std::uint32_t flag);
  // The copy has ended, well or not: wakes the engine. Nothing is written for it after that.
  void end(std::uint32_t flag, Code code, std::uint64_t root);

 private:
  protocol::TransferRegion& region() { return *reinterpret_cast<protocol::TransferRegion*>(mapping_.data()); }
  Fd fd_;
  Mapping mapping_;
};

}  // namespace larder::transfer
