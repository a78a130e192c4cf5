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
#include "tests/cuda/fake_driver/memory.h"

namespace larder::fake_cuda {

constexpr int kDevices = 2;

class Faults {
 public:
  void add(const std::string& function, int nth, ResultCode code, bool sticky, int times);
  void clear();
  // The answer of a call of this function, or of work of this kind, in the context of a device. -1: in none.
  ResultCode next(const std::string& function, int device);
  // The error that sticks to a device's context. -1: to any.
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

// Its work is done by a thread of its own, in order.
class Stream {
 public:
  explicit Stream(int device = 0) : device_(device), thread_(&Stream::work, this) {}
  int device() const { return device_; }
  ~Stream();
  void add(std::function<void()> work);
  void wait();

 private:
  void work();
  const int device_;
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
  int device;     // of the context that made it
  std::shared_ptr<Point> latest;
};

// How long work and calls take, by kind ("copy", "kernel", "digest"; "register", "host_alloc", "free", "wake").
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
  std::uint64_t home_bytes = 0;  // of copies to the host, queued and not done
  int processors = 132;
  bool host_pointers = true;
  int retained[kDevices] = {};    // primary contexts
  bool destroyed[kDevices] = {};  // such contexts
  bool used[kDevices] = {};       // by an engine, which retains them for good
  std::map<std::string, Cost> costs;
  std::map<std::string, std::function<void()>> behind;  // by kind of work
  std::map<void*, std::shared_ptr<Stream>> streams;
  std::map<void*, std::unique_ptr<Event>> events;
  Stream default_streams[kDevices]{Stream(0), Stream(1)};
  // Whoever pins memory, or lets go of some, has the whole driver to itself meanwhile.
  std::mutex pinning;

  // nullptr is the default one of the context that is current.
  Stream* stream(void* handle);
  // So long takes work of that kind, of so many bytes: this thread stands still meanwhile.
  void spend(const std::string& kind, std::size_t bytes);
  // Until nothing is queued or running on any stream.
  void drain();
};

Device& device();

}  // namespace larder::fake_cuda
