// The tests' controls for the fake libcuda.so.1, besides CUDA's own functions: device memory,
// faults, and counters of calls.
//
// Host code cannot reach the device's memory: an access to a device address crashes. Copies and
// kernels refuse host addresses that are neither registered nor pinned. A stream is a thread that
// works in order. Kernels are the code that NVIDIA's compiler gets (cuda/move_pieces.cuh). The
// copies of a batch run in no fixed order.
//
// Two devices have one context each. A call needs a current context; a stream, an event and device
// memory work in their own context only; registrations belong to the process. Registration, and
// allocation and release of pinned memory, take one lock of the driver, and a release waits for all
// work.
//
// In all this the fake driver is stricter than a GPU. Its times prove no speed. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace larder::fake_cuda {

// Back to the start: no faults, no memory, no registrations. REQUIRES: no work is under way.
void reset();

// Device memory that lives until reset(). `without_context`: the memory belongs to no context, as
// with virtual memory management. `on`: device 0 or 1.
std::byte* allocate(std::size_t bytes, bool without_context = false, int on = 0);
// Frees like cudaFree(), even if another process has the memory open.
void free_unasked(std::byte* page);
// Memory that is mapped by hand, as for engines that sleep. The memory can go, and other memory can
// come to the same address. `exportable`: a descriptor can be given away. `same_id`: both
// allocations have one number, against CUDA's promise.
std::byte* map_by_hand(std::size_t bytes, bool exportable = true);
void unmap_by_hand(std::byte* page);
void map_again(std::byte* page, bool same_id = false);
// The host's view of a device address.
std::byte* view(const void* device);

// Makes the nth call from now of `function` fail with `code`, and the calls after it, `times` in
// all. "kernel" and "copy" fail when their work is done. After a sticky fault every call in the
// context gives the code, and the context does no more work.
void fail(const char* function, int nth, int code, bool sticky = false, int times = 1);
// Clears all faults and sticky errors.
void forget_faults();
// Delays each copy and kernel, or only those of one `kind` ("copy"; "kernel", which moves;
// "digest", a kernel that only digests).
void delay_ms(int milliseconds, const char* kind = nullptr);
// The cost of each call or piece of work of a kind, and of each MiB. Kinds: "copy", "kernel",
// "digest"; "register", "host_alloc", "free", which hold the driver's lock; "wake", the delay
// before a thread that waited for an event runs.
void cost(const char* kind, int each_us, int per_mib_us = 0);
// The number of multiprocessors, and whether copies accept host addresses of registered memory.
// Para-virtual GPUs do not: a batch with such an address gives a sticky error.
void have(int processors, bool host_pointers = true);
// From now until reset() each registration has a device address far from its neighbour's, and no
// kernel may cross from one to the next.
void scatter_registrations();
// Runs `work` once on the stream's thread, after the next work of that kind ("copy", "kernel").
void then(const char* kind, std::function<void()> work);
// Runs `work` on a stream, as a kernel of the engine. nullptr: the default stream.
void run(void* stream, std::function<void()> work);
// A stream of the engine. Destroyed at reset().
void* make_stream(int on = 0);
// Captures later work on the stream into a graph, in CUDA's default mode (captures.h). False: some
// call has invalidated the capture.
void begin_capture(void* stream);
bool end_capture(void* stream);

// One successful call of cuMemHostRegister.
struct Registration {
  const void* start;
  std::size_t bytes;
  // Bytes without a page in this process's map, which the driver had to fault in.
  std::size_t absent_bytes;
  std::chrono::steady_clock::time_point begun, ended;
};
std::vector<Registration> registrations();

struct Counters {
  std::uint64_t kernels = 0, batches = 0, copies = 0, registered_bytes = 0, pinned_bytes = 0,
                streams = 0, events = 0, modules = 0, device_bytes = 0 /* by cuMemAlloc */;
  std::int64_t retained = 0;  // primary contexts
  std::uint64_t host_allocs = 0, host_frees = 0;
  // Of the pieces of one kernel that moves them, and of one that digests only.
  std::uint64_t most_moved_bytes = 0, most_digested_bytes = 0;
  // The most bytes of copies that were ready at once, from a device to the host and from the host
  // to a device. A copy of the engine that gets ready later may wait for all of them. Copies on one
  // stream are ready together up to a wait for another stream.
  std::uint64_t most_home_bytes = 0, most_away_bytes = 0;
  std::uint64_t host_waits = 0;  // for events
  // Waits on the host for events without blocking synchronisation.
  std::uint64_t spinning_waits = 0;
  unsigned most_blocks = 0;    // of all kernels at once, on any streams
  unsigned most_kernels = 0;   // at once
  unsigned other_streams = 0;  // with another priority than the least
};
Counters counters();
// The number of contexts on this thread's stack.
std::size_t contexts_of_thread();

}  // namespace larder::fake_cuda
