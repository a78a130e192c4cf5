// What tests ask of the fake libcuda.so.1 besides CUDA's own functions: memory of its "device", faults, and what was called.
//
// It keeps the device's memory where no other code can reach it: a device address that is read or written by the host is a crash, a
// host address that is neither registered nor pinned is refused by copies and kernels. Streams are threads that do their work in order, and
// kernels are the same code that NVIDIA's compiler gets (cuda/move_pieces.cuh). A batch's copies run in no order. Two devices, each with one context: a call needs a
// current context, and a stream, an event or device memory is used in its own context alone; registrations are the process's. Registering, allocating
// and freeing pinned memory take one lock of the driver, and freeing waits for all work. Stricter than a GPU in all that, and no proof of anything about speed.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace larder::fake_cuda {

// Everything as at the start: no faults, no memory, no registrations. REQUIRES: nothing is under way.
void reset();

// Device memory, which is there until reset(). `without_context`: it belongs to no context, as VMM's does. `on`: device 0 or 1.
std::byte* allocate(std::size_t bytes, bool without_context = false, int on = 0);
// As cudaFree() would, whoever else has it open.
void free_unasked(std::byte* page);
// Memory that is mapped by hand, as for engines that sleep: it can go, and be there anew at the same address, as other memory. `exportable`: it was made so
// that a descriptor of it can be given away. `same_id`: as if CUDA gave one number to two allocations, which it promises not to.
std::byte* map_by_hand(std::size_t bytes, bool exportable = true);
void unmap_by_hand(std::byte* page);
void map_again(std::byte* page, bool same_id = false);
// Where the host finds what lies at a device address.
std::byte* view(const void* device);

// The nth call from now on of `function` ("cuMemcpyAsync"; "kernel", "copy": when its work is done), and `times` of them, answer `code`. A
// sticky one is the answer of everything in that context from then on, and nothing of the context runs any more.
void fail(const char* function, int nth, int code, bool sticky = false, int times = 1);
// No faults any more, and no sticky error.
void forget_faults();
// So long each copy and kernel takes besides its work; or those of one `kind` alone ("copy"; "kernel", that moves; "digest", a kernel that only digests).
void delay_ms(int milliseconds, const char* kind = nullptr);
// Time of each piece of work or call of a kind, and of each MiB of it: "copy", "kernel", "digest"; "register", "host_alloc", "free" while the driver's lock is
// held; "wake", until a thread that waited for an event runs again.
void cost(const char* kind, int each_us, int per_mib_us = 0);
// Multiprocessors of a device; and whether copies take the host's addresses of registered memory, which a para-virtual GPU's do not: a batch with one is then
// an error that sticks.
void have(int processors, bool host_pointers = true);
// From here until reset() each registration has a device address of its own, far from its neighbour's: no kernel may go from one to the next.
void scatter_registrations();
// `work` is done once, on the stream's thread, behind the next work of that kind ("copy", "kernel").
void then(const char* kind, std::function<void()> work);
// Does `work` on a stream, as a kernel of the engine's would. nullptr: the default stream.
void run(void* stream, std::function<void()> work);
// A stream of the engine's. It goes at reset().
void* make_stream(int on = 0);
// What is queued on it from here on goes into a graph, in CUDA's default mode (captures.h). False: a call of somebody's has spoilt it.
void begin_capture(void* stream);
bool end_capture(void* stream);

// One call of cuMemHostRegister that did it.
struct Registration {
  const void* start;
  std::size_t bytes;
  std::size_t absent_bytes;  // that no page of this process's map stood for, so that the driver had to fault them in
  std::chrono::steady_clock::time_point begun, ended;
};
std::vector<Registration> registrations();

struct Counters {
  std::uint64_t kernels = 0, batches = 0, copies = 0, registered_bytes = 0, pinned_bytes = 0, streams = 0, events = 0,
                modules = 0, device_bytes = 0 /* by cuMemAlloc */;
  std::int64_t retained = 0;  // primary contexts
  std::uint64_t host_allocs = 0, host_frees = 0;
  std::uint64_t most_launch_bytes = 0;  // of the pieces of one kernel
  std::uint64_t most_home_bytes = 0;    // of copies from a device to the host that were queued and not done at once
  std::uint64_t host_waits = 0;         // for events
  std::uint64_t spinning_waits = 0;     // on the host for events that were not made to be waited for without a processor
  unsigned most_blocks = 0;             // of all kernels that ran at once, on whatever streams
  unsigned most_kernels = 0;            // at once
  unsigned other_streams = 0;           // made with another priority than the least
};
Counters counters();
// How many contexts are on this thread's stack.
std::size_t contexts_of_thread();

}  // namespace larder::fake_cuda
