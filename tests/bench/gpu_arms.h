/* The measurements behind the rows of `make bench-gpu`, for gpu_arms.py: copies inside the
 * process whose GPU work they disturb, like the product's inside an engine. Not thread-safe: one
 * thread calls. Seconds, bytes. */
#ifndef LARDER_TESTS_BENCH_GPU_ARMS_H_
#define LARDER_TESTS_BENCH_GPU_ARMS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu_field gpu_field;
typedef struct gpu_moves gpu_moves;

/* The reason of the last failure: a failed call gives -1, -2 for wrong bytes, or NULL. Valid
 * until the next call. */
const char* gpu_why(void);

/* The first device, before any other call, once. Its name, or NULL without a device. */
const char* gpu_open(void);

/* arena: a file of gpu_arena_bytes() with the slots, of another process, which keeps the file
 * present; the caller may close the descriptor. Below 0: no slots, and no moves. by_hand: 1:
 * pages in memory mapped by hand (cuMemMap), which a descriptor can share; 0: in cudaMalloc()'s. */
gpu_field* gpu_field_make(uint64_t bytes, uint64_t piece_bytes, uint64_t chunk_bytes, int arena,
                          int by_hand);
uint64_t gpu_arena_bytes(uint64_t bytes, uint64_t piece_bytes, uint64_t chunk_bytes);
void gpu_field_drop(gpu_field* field);   /* after its moves */
void* gpu_field_pages(gpu_field* field); /* the first; the others follow */
int gpu_field_fill(gpu_field* field);
int gpu_field_scribble(gpu_field* field);
int gpu_field_check(gpu_field* field);

/* method: "auto", "batch", "kernel", with kernel_blocks multiprocessors, and "bare kernel",
 * without digests; or "plain", calls of the driver of plain_bytes each, and with 0 the driver's
 * batches, of a chunk's pieces each. */
gpu_moves* gpu_moves_make(gpu_field* field, const char* method, unsigned kernel_blocks,
                          uint64_t plain_bytes);
void gpu_moves_drop(gpu_moves* moves);
/* The way of the product's copies, in words; "" for others. Valid until the next call. */
const char* gpu_moves_way(gpu_moves* moves);

/* All chunks once, by `callers` threads. store: 1 from the pages, 0 onto the pages. */
int gpu_one_way(gpu_moves* moves, int store, unsigned callers, double* seconds);
/* The same one chunk behind the other, by the device's own clock, of "plain" moves. */
int gpu_by_events(gpu_moves* moves, int store, double* seconds);
/* Both ways at once, until each has ended `copies` copies: the seconds at which each copy ended,
 * in no order, and their number. Each array has room for 64 * copies. */
int gpu_both_ways(gpu_moves* moves, unsigned callers, size_t copies, double* loads,
                  size_t* load_count, double* stores, size_t* store_count);
/* In the background, until gpu_rest(), which returns the rate. One at a time. */
int gpu_pace(gpu_moves* moves, int store, double bytes_per_s, unsigned callers);
int gpu_rest(double* bytes_per_s);

/* cuMemHostAlloc of this size, given back at once. */
int gpu_host_alloc(uint64_t bytes, double* seconds);
/* Small work of the device, one launch after the other on a thread of its own, until
 * gpu_launches_end() tells the time of a launch in microseconds: the median, the value that one
 * in a thousand exceeds, and the worst. -1: this driver has no such launch. */
int gpu_launches_begin(void);
int gpu_launches_end(double* median_us, double* rare_us, double* worst_us);
/* This size of a file in memory with pages of this size, touched by larderd's method, and then
 * registered by another mapping, by an engine's method. */
int gpu_touch_and_register(uint64_t bytes, uint64_t page_bytes, double* touch_seconds,
                           double* register_seconds);

#ifdef __cplusplus
}
#endif
#endif /* LARDER_TESTS_BENCH_GPU_ARMS_H_ */
