// Op: an operation that the disk tier accepted, until the last message of the operation. Owned by
// the thread of the tier.
#pragma once

#include <cstdint>
#include <memory>

#include "sidecar/tiers/command.h"
#include "sidecar/tiers/disk/device.h"

namespace larder::disk {

using tiers::Command;
using tiers::Outcome;

struct Op {
  Command command;
  bool done = false;           // kDone is sent
  bool on_device = false;      // the device uses the slot
  bool cancelled = false;      // dropped or lost meanwhile: fails whatever the device reports
  std::uint64_t began_ns = 0;  // the start at the device
  std::uint64_t dropped = 0;   // of a drop: chunks
  AlignedBytes head;
};
using OpPtr = std::shared_ptr<Op>;  // shared by the lists and the callback of the device

}  // namespace larder::disk
