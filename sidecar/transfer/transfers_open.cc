// EXPORT: the copy threads open the memory of a session, and make the copy engine of the device.
#include <unistd.h>

#include <exception>
#include <new>
#include <system_error>

#include "sidecar/base/log_throttle.h"
#include "sidecar/transfer/transfers_state.h"

namespace larder::transfer {

using copy::TransferRefusal;
using protocol::TransferReason;

Status Transfers::open(std::uint32_t session, std::uint32_t request, std::uint32_t process_number,
                       const copy::DeviceId& device, std::vector<copy::MemoryHandle> handles) {
  const Lock lock(mutex_);
  declined_.erase(session);
  SessionPtr& of = sessions_[session];
  if (!of) {
    // On the thread of the loop: the lock of the region must be larderd's before the engine sees
    // the descriptor.
    Result<TransferMemory> region = TransferMemory::create();
    if (!region.ok()) {
      sessions_.erase(session);
      return region.status();
    }
    of = std::make_shared<Session>(session, std::move(*region));
  }
  if (of->withdrawing) return {Code::kFailedPrecondition, "EXPORT before WITHDRAWN"};
  // An engine with many allocations sends several EXPORTs; each counts as one task.
  if (of->tasks >= kMaxTasks) return {Code::kResourceExhausted, "too much is asked at once"};
  ++of->tasks;
  of->exports.push_back({request, process_number == static_cast<std::uint32_t>(::getpid()), device,
                         std::move(handles)});
  if (!std::exchange(of->opening, true)) add([this, own = of] { open_in_turn(own); });
  return {};
}

// Opens all EXPORTs of a session in order. Each EXPORT is a task of the session, but all are one
// entry of the queue: two threads would number the memory in a random order.
void Transfers::open_in_turn(const SessionPtr& session) {
  for (;;) {
    Exporting next;
    {
      const Lock lock(mutex_);
      session->opening = !closing_ && !session->exports.empty();
      if (!session->opening) return;
      next = std::move(session->exports.front());
      session->exports.pop_front();
    }
    run_open(session, std::move(next));
    task_ended(session);
  }
}

void Transfers::run_open(const SessionPtr& session, Exporting exporting) {
  TransferRefusal refusal;
  {
    const Lock lock(mutex_);
    // One refusal counts for all following EXPORTs: pieces are numbered over all memory, so a gap
    // would shift the numbers.
    refusal = session->refused;
  }
  // CUDA IPC refuses memory of the own process, and compares process numbers. Two containers with
  // own PID namespaces may use one number twice.
  if (exporting.same_process)
    refusal = {TransferReason::kSameProcess,
               "engine and larderd both have the process number " + std::to_string(::getpid()) +
                   ", each in its container, which CUDA refuses: start larderd again"};
  else if (!refusal.refused())
    refusal = open_or_say_why(session, exporting);
  std::shared_ptr<const Memory> dropped;  // destroyed outside of the lock
  const Lock lock(mutex_);
  if (refusal.refused()) dropped = std::exchange(session->memory, std::make_shared<Memory>());
  session->refused = refusal;
  session->way = {!refusal.refused(), refusal};
  answers_.push_back({session->number, exporting.request, false, refusal,
                      !std::exchange(session->region_told, true)});
  wake_();
}

TransferRefusal Transfers::open_or_say_why(const SessionPtr& session, Exporting& exporting) {
  try {
    return open_all(session, exporting.device, exporting.handles);
  } catch (const std::bad_alloc&) {
    return {TransferReason::kFailed, "no memory"};  // short enough for no allocation
  } catch (const std::exception& error) {
    return {TransferReason::kFailed, std::string("larderd: ") + error.what()};
  }
}

TransferRefusal Transfers::open_all(const SessionPtr& session, const copy::DeviceId& id,
                                    std::vector<copy::MemoryHandle>& handles) {
  auto opened = std::make_shared<Memory>();
  {
    const Lock lock(mutex_);
    // A copy of the list, and swapped in at the end: running copies keep the old list, and after a
    // failed EXPORT the old list still holds.
    *opened = *session->memory;
    if (!opened->empty() && session->device_id != id)  // mutation: session-one-device
      return {TransferReason::kOtherDevice, "the engine has exported memory of another GPU before"};
  }
  // Before the first handle is opened: each open handle takes address space and driver memory.
  if (opened->size() + handles.size() > protocol::kMaxExports)
    return {TransferReason::kBound,
            "more than " + std::to_string(protocol::kMaxExports) + " allocations"};
  if (TransferRefusal refusal = importer_->look(id); refusal.refused()) return refusal;
  for (copy::MemoryHandle& handle : handles) {
    std::unique_ptr<copy::ImportedMemory> memory;
    if (TransferRefusal refusal = importer_->open(id, std::move(handle), memory); refusal.refused())
      return refusal;
    ++open_;
    // The deleter counts down, so `open` in the metrics shows a leak.
    opened->push_back({memory.release(), [this](const copy::ImportedMemory* one) {
                         delete one;
                         --open_;
                       }});
  }
  // One engine of copies for each GPU, shared by all sessions of the GPU.
  std::shared_ptr<Device> device;
  if (TransferRefusal refusal = make_device(id, *opened->front(), device); refusal.refused())
    return refusal;
  const Lock lock(mutex_);
  // The device may have failed since make_device(), in a copy of another session.
  if (!device->failure.empty()) return {TransferReason::kFailed, device->failure};
  session->device = std::move(device);
  session->device_id = id;
  counts_.opened += handles.size();
  session->memory = std::move(opened);
  return {};
}

TransferRefusal Transfers::make_device(const copy::DeviceId& id, const copy::ImportedMemory& memory,
                                       std::shared_ptr<Device>& made) {
  // A lock of its own: making a device takes long, and the other lock is needed for every copy.
  const std::lock_guard making(making_);
  {
    const Lock lock(mutex_);
    made = devices_[id];
  }
  if (made) return {};
  made = std::make_shared<Device>();
  const auto log = [](std::string_view level, std::string_view text) {
    if (level != "info")
      base::log_refusal("transfer", text, base::LogLevel::kWarning,
                        "transfer: sidecar: " + std::string(text));
  };
  Result<std::unique_ptr<copy::CopyEngine>> engine = importer_->engine(memory, log);
  if (!engine.ok()) return {TransferReason::kFailed, engine.status().text()};
  made->engine = std::move(*engine);
  try {
    // Registers the arena with the GPU in the background, as pages become present. Copies work
    // before that, through staging memory.
    made->ready = made->engine->make_ready(arena_, arena_file_);
  } catch (const std::system_error& error) {
    base::log_refusal("transfer", "no thread", base::LogLevel::kWarning,
                      std::string("transfer: sidecar: copies go through staging memory, no thread "
                                  "registers the arena: ") +
                          error.what());
  }
  const Lock lock(mutex_);
  if (made->ready) made->ready->present(present_);
  devices_[id] = made;
  return {};
}

}  // namespace larder::transfer
