// The private state of Transfers: devices, sessions and their requests. Each struct names its lock.
#pragma once

#include "sidecar/transfer/transfers.h"

namespace larder::transfer {

// The copy engine of one GPU for all engines, and the arena as registered with the GPU. Never
// removed, because a new one costs a CUDA context.
struct Transfers::Device {
  std::unique_ptr<copy::CopyEngine> engine;
  std::unique_ptr<copy::ReadyMemory> ready;  // destroyed before `engine`
  std::string failure;  // under the mutex; not empty: larderd copies no more on this device
};

// One EXPORT without an answer so far.
struct Transfers::Exporting {
  std::uint32_t request = 0;
  bool same_process = false;
  copy::DeviceId device{};
  std::vector<copy::MemoryHandle> handles;
};

// Under the mutex, except for `number` and `region`.
struct Transfers::Session {
  Session(std::uint32_t its_number, TransferMemory memory_for_flags)
      : number(its_number), region(std::move(memory_for_flags)) {}
  const std::uint32_t number;
  TransferMemory region;
  bool region_told = false;
  std::shared_ptr<Device> device;
  copy::DeviceId device_id{};  // of all open memory
  std::shared_ptr<const Memory> memory = std::make_shared<Memory>();
  std::deque<Exporting> exports;  // not open yet, in the order of the engine's numbers
  bool opening = false;           // a thread works on `exports`
  copy::TransferRefusal refused;  // since the last withdrawal
  std::uint32_t tasks = 0;
  bool ended = false;
  bool closing = false;
  std::optional<std::uint32_t> withdrawing;  // the request to answer
  Way way;
};

// One COPY until its end. The state is private to larderd, because the engine can write the flag.
struct Transfers::Copying {
  enum class State { kQueued, kTaken, kVoid };
  CopyOrder order;
  SessionPtr session;
  std::shared_ptr<const Memory> memory;  // released before the task ends
  // Under the mutex; kVoid: the engine took the copy back, and has the slot.
  State state = State::kQueued;
};

}  // namespace larder::transfer
