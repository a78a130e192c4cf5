// Registration: registers an arena with CUDA in the background, once for all devices of this
// process. CUDA refuses a second registration of the same bytes; each device has its own addresses
// for the registered memory.
//
// A driver registers memory under locks of the whole node, and launches of every process wait for
// these locks. To keep these waits short:
// - Each call registers one slice. The pages of the slice are made present before, outside the
// locks.
// - After each call there is a pause as long as the call.
// - Of the processes of a node, one has the turn for a call and its pause (turn.h).
//
// Only pages that larderd has touched are registered, because the kernel charges a page to the
// first process that touches it.
//
// Thread-safe; owns a thread. The destructor waits for the current slice and takes all slices back,
// which waits for the GPU.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/device_context.h"
#include "cuda/turn.h"

namespace larder::copy::cuda {

struct RegistrationOptions {
  // On an H100 (driver 580) a call for 64 MiB takes 5 ms. Slices of 128 MiB take 8 ms a call and 9%
  // less time in all (tests/bench/gpu_probe.py).
  std::size_t slice_bytes = 64 << 20;
  // The wait for the turn of other processes. After one such wait the process stops waiting.
  std::chrono::milliseconds turn_wait{10'000};
  // The library whose file the processes of the node have in common. Empty: the driver's.
  std::string turn_library;
  std::chrono::milliseconds progress_every{10'000};
};

class Registration {
 public:
  // The memory as seen by one device. The code that copies there makes the view and gives its log.
  struct View {
    View(ContextPtr of, Log its_log, std::size_t slices)
        : context(std::move(of)), log(std::move(its_log)), devices(slices) {}
    const ContextPtr context;
    const Log log;
    std::vector<DevicePtr> devices;     // of each slice; the first `ready` are set
    std::atomic<std::size_t> ready{0};  // in slices
    std::atomic<bool> ended{false};     // registration has ended for this device
    // The kind of GPU or container forbids registration.
    std::atomic<bool> not_allowed{false};
  };

  // Finds or makes the Registration of this memory in this process. `memory` and `file` outlive the
  // result; `memory` is a mapping of `file`, or `file` is -1. A found Registration keeps its first
  // options and file. Throws std::system_error where no thread can be made.
  static std::shared_ptr<Registration> of(std::span<std::byte> memory, int file,
                                          const RegistrationOptions& options);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // After join() the thread fills the view, which must live until leave(). Registration starts
  // after the first join(). Only leave() may wait for the driver: the thread that sends heartbeats
  // calls the other functions.
  void join(View& view);
  void leave(View& view);
  void present(std::uint64_t bytes);
  // See ReadyMemory.
  void take_back_slowly() { slowly_ = true; }

  std::span<std::byte> slice(std::size_t number) const;
  std::size_t slices() const {
    return (memory_.size() + options_.slice_bytes - 1) / options_.slice_bytes;
  }
  std::size_t slice_bytes() const { return options_.slice_bytes; }
  std::span<std::byte> memory() const { return memory_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  // The context that registered each slice; only that context can take the slice back. nullptr:
  // another library registered the slice.
  using Owners = std::vector<ContextPtr>;

  Registration(std::span<std::byte> memory, int file, const RegistrationOptions& options);
  void work();
  void go_on(Lock& lock);
  // REQUIRES: the mutex is held.
  View* behind() const;
  View* first_alive() const;
  bool next_is_present() const;
  void name_next(Lock& lock, View& view);
  void tell(std::string_view level, const std::string& text) const;
  void tell_progress();
  void refuse(const Status& status, ResultCode code);
  void register_next(Lock& lock);
  void end(View& view, const std::string& why) const;
  void rest(Lock& lock);
  bool wait_for_turn(Lock& lock);
  ResultCode register_slice(std::span<std::byte> bytes, const ContextPtr& context, bool& ours);
  void take_back();

  const std::span<std::byte> memory_;
  const RegistrationOptions options_;
  Turn turn_;           // of the thread
  bool turns_ = true;   // the thread waits for other processes
  bool known_ = false;  // under Known's mutex: of() can find it
  std::atomic<bool> slowly_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<View*> views_;
  const View* named_ = nullptr;  // the view that the thread fills now
  Owners owners_;
  std::uint64_t present_ = 0;
  std::string refused_;  // not empty: registration has ended
  bool not_allowed_ = false;
  bool closing_ = false;
  std::size_t populated_ = 0;  // in slices
  Clock::time_point rest_until_{}, begun_{}, reported_{};
  Clock::duration longest_{};
  std::thread thread_;
};

}  // namespace larder::copy::cuda
