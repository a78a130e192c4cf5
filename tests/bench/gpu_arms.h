/* What the rows of `make bench-gpu` are measured with, for gpu_arms.py: copies inside the process whose GPU work they disturb, as the product's
 * are inside an engine. Not thread-safe: one thread calls. Seconds, bytes. */
#ifndef LARDER_TESTS_BENCH_GPU_ARMS_H_
#define LARDER_TESTS_BENCH_GPU_ARMS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu_field gpu_field;
typedef struct gpu_moves gpu_moves;

/* Of the call that failed last: they give -1, -2 where bytes were wrong, or NULL. Valid until the next call. */
const char* gpu_why(void);

/* The first device, before anything else, once. Its name, or NULL where there is none. */
const char* gpu_open(void);

/* arena: a file of gpu_arena_bytes() with the slots, of another process, which keeps it present; the caller may close it. Below 0: no slots, and no moves.
 * by_hand: 1: pages in memory that is mapped by hand (cuMemMap) and can be given to another process by a descriptor; 0: in cudaMalloc()'s. */
gpu_field* gpu_field_make(uint64_t bytes, uint64_t piece_bytes, uint64_t chunk_bytes, int arena, int by_hand);
uint64_t gpu_arena_bytes(uint64_t bytes, uint64_t piece_bytes, uint64_t chunk_bytes);
void gpu_field_drop(gpu_field* field);   /* after its moves */
void* gpu_field_pages(gpu_field* field); /* the first; the others follow */
int gpu_field_fill(gpu_field* field);
int gpu_field_scribble(gpu_field* field);
int gpu_field_check(gpu_field* field);

/* method: "auto", "batch", "kernel", of so many multiprocessors, and "bare kernel", which digests nothing; or "plain", calls of the driver of plain_bytes each,
 * and with 0 its batches, of a chunk's pieces each. */
gpu_moves* gpu_moves_make(gpu_field* field, const char* method, unsigned kernel_blocks, uint64_t plain_bytes);
void gpu_moves_drop(gpu_moves* moves);
/* By what the product's copies go, in words; "" of the others. Valid until the next call. */
const char* gpu_moves_way(gpu_moves* moves);

/* All chunks once, by so many threads. store: 1 from the pages, 0 onto them. */
int gpu_one_way(gpu_moves* moves, int store, unsigned callers, double* seconds);
/* The same one chunk behind the other, by the device's own clock, of "plain" moves. */
int gpu_by_events(gpu_moves* moves, int store, double* seconds);
/* Both ways at once, until each has so many copies: the seconds at which each copy ended, in no order, and how many these are. Each array has
 * room for 64 * copies. */
int gpu_both_ways(gpu_moves* moves, unsigned callers, size_t copies, double* loads, size_t* load_count, double* stores,
                  size_t* store_count);
/* In the background, until gpu_rest(), which tells at which rate they went. One at a time. */
int gpu_pace(gpu_moves* moves, int store, double bytes_per_s, unsigned callers);
int gpu_rest(double* bytes_per_s);

/* cuMemHostAlloc of so much, which is given back. */
int gpu_host_alloc(uint64_t bytes, double* seconds);
/* Small work of the device, one launch after the other on a thread of its own, until gpu_launches_end() tells what one took, in microseconds: the median, that
 * which one in a thousand exceeds, and the worst. -1: this driver has none to launch. */
int gpu_launches_begin(void);
int gpu_launches_end(double* median_us, double* rare_us, double* worst_us);
/* So much of a file in memory with pages of this size, touched as larderd does it, and then registered by another mapping, as an engine does it. */
int gpu_touch_and_register(uint64_t bytes, uint64_t page_bytes, double* touch_seconds, double* register_seconds);

#ifdef __cplusplus
}
#endif
#endif /* LARDER_TESTS_BENCH_GPU_ARMS_H_ */
