// CopyList: copies for the device's copy engines. BatchUse: queues such lists, in one call of the
// driver where the driver can.
#pragma once

#include <atomic>
#include <string_view>
#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/device_range.h"
#include "cuda/driver.h"

namespace larder::copy::cuda {

// Copies of bytes, as three lists of one length for the driver. Adjacent copies are not joined: two
// neighbours may lie in two allocations, and no single copy may cross a border. Plain data.
struct CopyList {
  std::vector<DevicePtr> to, from;
  std::vector<std::size_t> bytes;
  void add(DevicePtr to_address, DevicePtr from_address, std::size_t count);
  // Adds all non-null pieces, to or from `packed`, which holds the pieces in order from its start.
  // A piece across two registrations becomes two copies.
  void add_pieces(bool gather, const PieceList& list, const DeviceRange& packed);
};

// Thread-safe.
class BatchUse {
 public:
  explicit BatchUse(Log log) : log_(std::move(log)) {}
  // Queues all copies. The stream reads sources in order, so a page is read only after the earlier
  // work of the stream.
  //
  // A refusal for a reason other than the state of the device ends batches for good, with one line
  // in the log: this list and all later lists are copied one by one. A driver without the function
  // gives no log line. REQUIRES: the context is current.
  Status copy(const Driver& driver, CopyList& list, Handle stream);

 private:
  void stop(ResultCode result, std::string_view why);
  const Log log_;
  std::atomic<bool> wanted_{true};
};

}  // namespace larder::copy::cuda
