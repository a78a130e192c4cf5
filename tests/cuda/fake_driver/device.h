// The state behind the fake driver: memory that addresses are checked against, faults, streams.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver_abi.h"
#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/cuda/fake_driver/shared_memory.h"

namespace larder::fake_cuda {

using copy::cuda::DevicePtr;
using copy::cuda::ResultCode;

// Host memory as a device names it: nothing that the host could use.
constexpr DevicePtr kMapped = DevicePtr{1} << 62;
constexpr std::size_t kHeapBytes = 512 << 20;

class Memory {
 public:
  Memory();
  std::byte* allocate(std::size_t bytes, bool without_context, bool by_the_driver = false);
  // False: cuMemAlloc gave out no such address.
  bool release(DevicePtr address);
  std::uint64_t device_bytes() const;
  void forget_all();
  bool on_device(DevicePtr address, std::size_t bytes) const;
  bool of_a_context(DevicePtr address) const;
  std::byte* view(DevicePtr address) const;
  // The allocation that the address lies in, of any kind. Nothing: none.
  struct Where {
    DevicePtr base;
    std::size_t bytes;
    std::uint64_t id;  // no other allocation ever has it
    bool heap;         // cuMemAlloc's: it has a legacy handle
  };
  std::optional<Where> where(DevicePtr address) const;
  copy::cuda::IpcHandle name(const Where& heap) const;
  void free_unasked(DevicePtr address);

  // False: it overlaps what is there.
  bool add_pinned(void* memory, std::size_t bytes, bool registered);
  // False: there is none that begins there.
  bool remove_pinned(void* memory, bool registered);
  bool pinned(DevicePtr address, std::size_t bytes) const;
  std::uint64_t pinned_bytes(bool registered) const;

  // What a copy may touch, or a kernel: nullptr where neither may.
  std::byte* for_copy(DevicePtr address, std::size_t bytes) const;
  std::byte* for_kernel(DevicePtr address, std::size_t bytes) const;

 private:
  struct Pinned {
    std::size_t bytes;
    bool registered;
  };
  mutable std::mutex mutex_;
  void erase(DevicePtr address);
  LiveTable& live() const { return *reinterpret_cast<LiveTable*>(alias_); }
  int file_ = -1;
  std::uint64_t last_id_ = 0;
  std::byte* device_ = nullptr;  // nobody may touch it
  std::byte* alias_ = nullptr;   // the same bytes
  std::size_t used_ = sizeof(LiveTable);
  struct Allocated {
    std::size_t bytes;
    bool without_context, by_the_driver;
    std::size_t place;  // in the table of what lives
    std::uint64_t id;
  };
  std::map<DevicePtr, Allocated> allocated_;
  std::map<DevicePtr, Pinned> pinned_;
};

class Faults {
 public:
  void add(const std::string& function, int nth, ResultCode code, bool sticky, int times);
  void clear();
  // The answer of a call of this function.
  ResultCode next(const std::string& function);
  ResultCode sticky() const;
  void set_sticky(ResultCode code);

 private:
  struct Fault {
    int nth, times;
    ResultCode code;
    bool sticky;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Fault> faults_;
  ResultCode sticky_ = copy::cuda::kSuccess;
};

// Its work is done by a thread of its own, in order.
class Stream {
 public:
  Stream() : thread_(&Stream::work, this) {}
  ~Stream();
  void add(std::function<void()> work);
  void wait();

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, closing_ = false;
  std::thread thread_;
};

// Each recording is a point of its own, as CUDA has it: who waits waits for the latest before the wait.
struct Point {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  bool captured = false;  // it is a graph's: nobody may wait for it
  std::chrono::steady_clock::time_point when;
  void reach();
  void wait();
  bool over();
};
struct Event {
  bool blocking;  // who waits for it sleeps
  std::shared_ptr<Point> latest;
};

struct Device {
  Memory memory;
  Faults faults;
  std::mutex mutex;
  Counters counted;
  unsigned running_blocks = 0, running_kernels = 0;
  std::map<std::string, int> delays;                    // by kind of work
  std::map<std::string, std::function<void()>> behind;  // by kind of work
  std::map<void*, std::unique_ptr<Stream>> streams;
  std::map<void*, std::unique_ptr<Event>> events;
  Stream default_stream;

  Stream* stream(void* handle);
};

Device& device();

}  // namespace larder::fake_cuda
