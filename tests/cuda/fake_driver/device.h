// The state of the fake driver: memory against which addresses are checked, faults, streams.
#pragma once

#include <array>
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
#include "tests/cuda/fake_driver/memory.h"

namespace larder::fake_cuda {

constexpr int kDevices = 2;

class Faults {
 public:
  void add(const std::string& function, int nth, ResultCode code, bool sticky, int times);
  void clear();
  // The answer to a call of this function, or to work of this kind, in the context of `device`. -1:
  // without a context.
  ResultCode next(const std::string& function, int device);
  // The sticky error of a device's context. -1: of any context.
  ResultCode sticky(int device) const;
  void set_sticky(int device, ResultCode code);

 private:
  struct Fault {
    int nth, times;
    ResultCode code;
    bool sticky;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Fault> faults_;
  ResultCode sticky_[kDevices] = {};
};

// Bytes of copies by direction: from a device to the host, and from the host to a device.
using CopiedBytes = std::array<std::uint64_t, 2>;

// The bytes of ready copies. The device may make all of them before a copy that gets ready later.
class ReadyBytes {
 public:
  void add(const CopiedBytes& bytes);
  void end(const CopiedBytes& bytes);
  CopiedBytes most() const;
  void forget();

 private:
  mutable std::mutex mutex_;
  CopiedBytes now_{}, most_{};
};

// A stream with a thread that does the work in order. Copies get ready together: the queued copies
// up to the next wait for another stream.
class Stream {
 public:
  explicit Stream(int device = 0) : device_(device), thread_(&Stream::work, this) {}
  int device() const { return device_; }
  ~Stream();
  void add(std::function<void()> work);
  void add_copies(std::function<void()> work, const CopiedBytes& bytes);
  // Work that waits for another stream.
  void add_wait(std::function<void()> work);
  void wait();

 private:
  struct Item {
    std::function<void()> work;
    CopiedBytes bytes{};
    bool waits = false;
  };
  void add(Item item);
  void work();
  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::deque<CopiedBytes> not_ready_;  // behind each queued wait
  bool busy_ = false, closing_ = false;
  std::thread thread_;
};

// Each recording is a separate point, as in CUDA: a wait covers the latest recording before the
// wait.
struct Point {
  const Stream* of = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  bool captured = false;  // part of a graph: a wait is an error
  std::chrono::steady_clock::time_point when;
  void reach();
  void wait();
  bool over();
};
struct Event {
  bool blocking;  // a waiting thread sleeps
  int device;     // of the context that made the event
  std::shared_ptr<Point> latest;
};

// The cost of work and calls, by kind ("copy", "kernel", "digest"; "register", "host_alloc",
// "free", "wake").
struct Cost {
  int each_us = 0, per_mib_us = 0;
};

struct Device {
  Memory memory;
  Faults faults;
  std::mutex mutex;
  Counters counted;
  std::vector<Registration> registrations;
  unsigned running_blocks = 0, running_kernels = 0;
  ReadyBytes ready;
  int processors = 132;
  bool host_pointers = true;
  int retained[kDevices] = {};    // primary contexts
  bool destroyed[kDevices] = {};  // destroyed primary contexts
  bool used[kDevices] = {};       // retained for good by an engine
  std::map<std::string, Cost> costs;
  std::map<std::string, std::function<void()>> behind;  // by kind of work
  std::map<void*, std::shared_ptr<Stream>> streams;
  std::map<void*, std::unique_ptr<Event>> events;
  Stream default_streams[kDevices]{Stream(0), Stream(1)};
  // Held during each call that pins or releases memory, as by the whole driver.
  std::mutex pinning;

  // nullptr: the default stream of the current context.
  Stream* stream(void* handle);
  // Blocks this thread for the cost of such work.
  void spend(const std::string& kind, std::size_t bytes);
  // Waits until all streams are idle.
  void drain();
};

Device& device();

}  // namespace larder::fake_cuda
