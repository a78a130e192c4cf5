// Registration: an arena as this process registers it with CUDA, in the background, once for all devices: a registration is the process's, and CUDA refuses
// a second one of the same bytes. Each device has addresses of its own for it.
//
// A driver registers under locks of the whole node: launches of every process there wait meanwhile. So it is done by slices, whose pages are made present
// before the call and outside these locks; behind each call there is a pause as long as the call; and one process of those that share the memory's file has
// the turn, for a call and its pause.
// Only memory that is present is registered: who touches first is charged. Thread-safe; owns a thread. Its destructor waits for the slice that is under way, and takes
// all back, which waits for the GPU.
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
  std::size_t slice_bytes = 64 << 20;           // a call of 5 ms on an H100 (driver 580); of 128 MiB 8 ms, and 9% less in all (gpu_probe.py)
  std::chrono::milliseconds turn_wait{10'000};  // for other processes; longer than this none is waited for any more
  std::chrono::milliseconds progress_every{10'000};
};

class Registration {
 public:
  // The memory as one device sees it. Made by whoever copies there, which gives its log.
  struct View {
    View(ContextPtr of, Log its_log, std::size_t slices) : context(std::move(of)), log(std::move(its_log)), devices(slices) {}
    const ContextPtr context;
    const Log log;
    std::vector<DevicePtr> devices;        // of each slice; the first `ready` are set
    std::atomic<std::size_t> ready{0};     // slices
    std::atomic<bool> ended{false};        // no more will be
    std::atomic<bool> not_allowed{false};  // by the kind of GPU or container: nothing can be registered there
  };

  // The one of this memory in this process: made, or found. `memory` and `file` (of which the memory is a mapping, or -1) outlive it. Where it is found, options
  // and file are the first one's. Throws std::system_error where no thread can be made.
  static std::shared_ptr<Registration> of(std::span<std::byte> memory, int file, const RegistrationOptions& options);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // From here on the view is filled, by the thread. It lives until leave(). At least one must have joined before anything is registered. These, but for leave(),
  // never wait for the driver: a thread that has to beat calls them.
  void join(View& view);
  void leave(View& view);
  void present(std::uint64_t bytes);
  // See ReadyMemory.
  void take_back_slowly() { slowly_ = true; }

  std::span<std::byte> slice(std::size_t number) const;
  std::size_t slices() const { return (memory_.size() + options_.slice_bytes - 1) / options_.slice_bytes; }
  std::size_t slice_bytes() const { return options_.slice_bytes; }
  std::span<std::byte> memory() const { return memory_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  // What has been registered: by whose context, which alone can take it back. nullptr: somebody else's.
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
  Turn turn_;           // the thread's
  bool turns_ = true;   // the thread's: others are waited for
  bool known_ = false;  // under Known's mutex: it can be found
  std::atomic<bool> slowly_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<View*> views_;
  const View* named_ = nullptr;  // by the thread just now
  Owners owners_;
  std::uint64_t present_ = 0;
  std::string refused_;  // not empty: no more is registered
  bool not_allowed_ = false;
  bool closing_ = false;
  std::size_t populated_ = 0;  // slices
  Clock::time_point rest_until_{}, begun_{}, told_{};
  Clock::duration longest_{};
  std::thread thread_;
};

}  // namespace larder::copy::cuda
