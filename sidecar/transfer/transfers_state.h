// What Transfers keeps of devices, sessions and what they have asked for; for its own files alone. Each says what guards it.
#pragma once

#include "sidecar/transfer/transfers.h"

namespace larder::transfer {

// Copies of all engines on one GPU, and the arena as registered with it. It stays: to make one costs a context.
struct Transfers::Device {
  std::unique_ptr<copy::CopyEngine> engine;
  std::unique_ptr<copy::ReadyMemory> ready;  // goes before the engine
  std::string failure;                       // under the mutex; not empty: nothing is copied there any more
};

// One EXPORT, until it is answered.
struct Transfers::Exporting {
  std::uint32_t request = 0;
  bool same_process = false;
  copy::DeviceId device{};
  std::vector<copy::MemoryHandle> handles;
};

// Under the mutex, but for `number` and `region`.
struct Transfers::Session {
  Session(std::uint32_t its_number, TransferMemory memory_for_flags) : number(its_number), region(std::move(memory_for_flags)) {}
  const std::uint32_t number;
  TransferMemory region;
  bool region_told = false;
  std::shared_ptr<Device> device;
  copy::DeviceId device_id{};  // of all that is open
  std::shared_ptr<const Memory> memory = std::make_shared<Memory>();
  std::deque<Exporting> exports;  // not open yet; the engine counts what it exports as they came
  bool opening = false;           // one thread sees to them
  copy::TransferRefusal refused;  // since the last withdrawal
  std::uint32_t tasks = 0;
  bool ended = false;
  bool closing = false;
  std::optional<std::uint32_t> withdrawing;  // the request that is to be answered
  Way way;
};

// One COPY, until it has ended. Its state is larderd's own: what stands in the flag the engine can write.
struct Transfers::Copying {
  enum class State { kQueued, kTaken, kVoid };
  CopyOrder order;
  SessionPtr session;
  std::shared_ptr<const Memory> memory;  // let go before the task has ended
  State state = State::kQueued;          // under the mutex; kVoid: its engine has taken it back, and has the slot
};

}  // namespace larder::transfer
