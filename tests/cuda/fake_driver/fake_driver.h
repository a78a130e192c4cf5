// What tests ask of the fake libcuda.so.1 besides CUDA's own functions: memory of its "device", faults, and what was called.
//
// It keeps the device's memory where no other code can reach it: a device address that is read or written by the host is a crash, a
// host address that is neither registered nor pinned is refused by copies and kernels. Streams are threads that do their work in order, and
// kernels are the same code that NVIDIA's compiler gets (cuda/move_pieces.cuh). Stricter than a GPU in all that, and no proof of anything about speed.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace larder::fake_cuda {

// Everything as at the start: no faults, no memory, no registrations. REQUIRES: nothing is under way.
void reset();

// Device memory, which is there until reset(). In one piece where `without_context` memory belongs to no context, as VMM's does.
std::byte* allocate(std::size_t bytes, bool without_context = false);
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
// sticky one is the answer of everything from then on, and nothing runs any more.
void fail(const char* function, int nth, int code, bool sticky = false, int times = 1);
// No faults any more, and no sticky error.
void forget_faults();
// So long each copy and kernel takes besides its work; or those of one `kind` alone ("copy"; "kernel", that moves; "digest", a kernel that only digests).
void delay_ms(int milliseconds, const char* kind = nullptr);
// `work` is done once, on the stream's thread, behind the next work of that kind ("copy", "kernel").
void then(const char* kind, std::function<void()> work);
// Does `work` on a stream, as a kernel of the engine's would. nullptr: the default stream.
void run(void* stream, std::function<void()> work);
// A stream of the engine's. It goes at reset().
void* make_stream();
// What is queued on it from here on goes into a graph, in CUDA's default mode (captures.h). False: a call of somebody's has spoilt it.
void begin_capture(void* stream);
bool end_capture(void* stream);

struct Counters {
  std::uint64_t kernels = 0, batches = 0, copies = 0, registered_bytes = 0, pinned_bytes = 0, streams = 0, events = 0,
                modules = 0, device_bytes = 0 /* by cuMemAlloc */;
  std::uint64_t spinning_waits = 0;  // on the host for events that were not made to be waited for without a processor
  unsigned most_blocks = 0;          // of all kernels that ran at once, on whatever streams
  unsigned most_kernels = 0;         // at once
  unsigned other_streams = 0;        // made with another priority than the least
};
Counters counters();
// How many contexts are on this thread's stack.
std::size_t contexts_of_thread();

}  // namespace larder::fake_cuda
