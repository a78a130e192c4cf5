/* larder.h: the C ABI of liblarder.so, the shim inside an inference engine. The only exported
 * symbols.
 *
 * A client stands for one engine process attached to one larderd. A client never blocks the
 * caller on larderd: opening succeeds while larderd is absent, and a native thread attaches and
 * re-attaches by itself. Until then every look-up misses.
 *
 * Threads: every function may be called from any thread, unless the function's comment says
 * otherwise. Forked children: every function fails with LARDER_FAILED_PRECONDITION or reports a
 * miss; the parent is not disturbed.
 * Ownership: pointers passed in are only read during the call, except for registered pages,
 * which must stay valid and mapped until larder_close() has returned. Strings are UTF-8 and
 * zero-terminated.
 * Errors: functions return a larder_status; larder_status_text() gives the status in words. No
 * function throws or aborts. larder_next_log() has the full text of a caller's error in setting
 * up, loading, storing or dropping: "error larder_register_pages: the namespace has 2 layers,
 * got 1".
 * Versions: structs begin with their size in bytes, set by the caller; later fields are taken as
 * 0. */
#ifndef LARDER_H_
#define LARDER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LARDER_API __attribute__((visibility("default")))

typedef struct larder_client larder_client;

/* The numbers of larder::Code in shim/base/status.h. */
typedef enum larder_status {
  LARDER_OK = 0,
  LARDER_INVALID_ARGUMENT = 1,
  LARDER_NOT_FOUND = 2,
  LARDER_ALREADY_EXISTS = 3,
  LARDER_OUT_OF_RANGE = 4,
  LARDER_RESOURCE_EXHAUSTED = 5,
  LARDER_UNAVAILABLE = 6,
  LARDER_DEADLINE_EXCEEDED = 7,
  LARDER_FAILED_PRECONDITION = 8,
  LARDER_DATA_LOSS = 9,
  LARDER_UNSUPPORTED = 10,
  LARDER_PERMISSION_DENIED = 11,
  LARDER_INTERNAL = 12
} larder_status;

/* A constant string; never NULL. */
LARDER_API const char* larder_status_text(larder_status status);

/* "0.1.0 protocol 1.5": a constant string. */
LARDER_API const char* larder_version(void);

/* ---- Opening ---- */

typedef struct larder_options {
  uint32_t struct_bytes;
  uint32_t copy_threads; /* threads for loads; 0: one for each 2 processors, at most 4 */
  const char* socket;    /* larderd's socket; NULL: $LARDER_SOCKET, else /run/larder/larder.sock */
  const char* engine;    /* for people, e.g. "vllm 0.32.0 worker 0" */
} larder_options;

/* Starts a client. Fails only for bad arguments or when no thread can be made. */
LARDER_API larder_status larder_open(const larder_options* options, larder_client** client);

/* Stops and frees the client: waits until no thread of the client writes into registered pages.
 * No other call may be under way. NULL is allowed. */
LARDER_API void larder_close(larder_client* client);

typedef struct larder_group {
  uint64_t piece_bytes; /* one layer's part of one block */
  /* 0: a stage of a pipeline (layout_of_shard) without a layer of the group; larder_set_parts() */
  uint32_t layers;
  uint32_t blocks_per_chunk; /* a chunk is layers * blocks_per_chunk pieces */
} larder_group;

typedef struct larder_namespace {
  uint32_t struct_bytes;
  uint32_t shard_count; /* a hit needs the chunk of every shard and group */
  /* Canonical text, "field: value" lines; its XXH3-128 is the namespace's id. Empty while unknown:
   * the client attaches, number 0 is a miss, and larder_add_namespace() gives the number of the
   * later text. */
  const char* fingerprint;
  const char* model; /* served name, a metric label */
  const larder_group* groups;
  uint32_t group_count;
  uint32_t chunk_tokens;
  uint32_t layout_of_shard; /* 0: every shard has these groups; n + 1: shard n alone */
  /* Groups of tokens come first, then groups of states, and groups of tails last. */
  uint32_t state_group_count; /* larder_add_state_namespace() */
  uint32_t tail_group_count;  /* larder_add_tail_namespace() */
  uint32_t tail_tokens;       /* of a piece of a tail; 0 without groups of tails */
} larder_namespace;

/* Sets the namespace of this client, once, before any other call. Every attachment announces the
 * namespace. */
LARDER_API larder_status larder_set_namespace(larder_client* client, const larder_namespace* ns);

/* Tells which parts of a chunk this client's larderd keeps, for every namespace. A part is one
 * shard's pieces of one group; kept has a byte for each, part_count of them, kept[shard *
 * group_count + group]: 0 where larderd has none, because the shard's stage has no layer of the
 * group (layers is 0 there), or the shard's rank runs on another node. A hit needs the parts that
 * are kept. Every client of an engine tells its larderd the same. Once, with an empty fingerprint
 * in larder_set_namespace(), before larder_add_namespace(); without this call all parts are kept. A
 * larderd of protocol 1.7 or older opens no namespace where a part is left out (larder_next_log()
 * says so). LARDER_INVALID_ARGUMENT: no part is left, or the parts contradict this shard's layers.
 * LARDER_FAILED_PRECONDITION: too late. */
LARDER_API larder_status larder_set_parts(larder_client* client, const uint8_t* kept,
                                          size_t part_count);

/* Adds a namespace of the same geometry with another fingerprint (an adapter's), at any time.
 * *ns is its number, for larder_hashes; the same fingerprint has the same number, and the first
 * namespace is 0. Until larderd has opened the namespace, its chunks are misses. model may be
 * NULL: the first namespace's. At most 64 a client at a time: LARDER_RESOURCE_EXHAUSTED until
 * one is closed. */
LARDER_API larder_status larder_add_namespace(larder_client* client, const char* fingerprint,
                                              const char* model, uint32_t* ns);

/* The same for a namespace of recurrent states (Mamba and the like). Its chunks have only the
 * state groups of larder_set_namespace(); chunks of other namespaces have the groups before. One
 * chunk is the state at the end of its last token, in every layer with a state. Numbers of
 * groups are the client's in every call. */
LARDER_API larder_status larder_add_state_namespace(larder_client* client, const char* fingerprint,
                                                    const char* model, uint32_t* ns);

/* The same for a namespace of tails: the tokens of a request behind its last whole chunk. Its
 * chunks are pieces of tail_tokens tokens, and have only the groups of tails. A group of tails has
 * the layers and pages of a group of tokens, and fewer blocks. The key of a piece is the hash of
 * its last block. */
LARDER_API larder_status larder_add_tail_namespace(larder_client* client, const char* fingerprint,
                                                   const char* model, uint32_t* ns);

/* Closes namespace `ns` (1 or above, of larder_add_namespace). Never waits. From here on the
 * number is a miss in every call, and its place serves a later larder_add_namespace, which gives
 * another number. Running loads finish; begun stores are committed or given back; a fetch or a
 * probe ends by its deadline. The chunks stay in larderd until eviction, unless flags has
 * LARDER_CLOSE_DROP. Then the last session that closes the namespace drops the chunks from
 * larderd's memory; in lower tiers the chunks expire. A larderd of protocol 1.5 or older, or an
 * absent larderd, keeps the chunks. LARDER_NOT_FOUND: no such namespace, or the namespace is
 * closed. */
#define LARDER_CLOSE_DROP 1u
LARDER_API larder_status larder_close_namespace(larder_client* client, uint32_t ns, uint32_t flags);

/* Waits until larderd has opened namespace `ns`, at most timeout_ms: LARDER_DEADLINE_EXCEEDED.
 * Without a living session returns LARDER_UNAVAILABLE at once. LARDER_NOT_FOUND: the namespace
 * is closed. */
LARDER_API larder_status larder_wait_namespace(larder_client* client, uint32_t ns,
                                               uint32_t timeout_ms);

/* The namespace id as 32 hex digits and a zero: at least 33 bytes. */
LARDER_API larder_status larder_namespace_id(const char* fingerprint, char* hex, size_t hex_bytes);

/* One layer's KV pages of this engine: page i is page_bytes bytes at base + i * stride_bytes.
 * Gaps between pages are left alone. */
typedef struct larder_pages {
  void* base;
  uint64_t stride_bytes;
  uint64_t page_bytes;
  uint64_t page_count;
} larder_pages;

/* Gives the pages of one group, a larder_pages for each layer, in the order of the fingerprint's
 * layers. Once a group. All pages lie in host memory, or all on one CUDA device of this process;
 * else LARDER_UNSUPPORTED. */
LARDER_API larder_status larder_register_pages(larder_client* client, uint32_t group,
                                               const larder_pages* layers, uint32_t layer_count);

/* For pages on a CUDA device: every load, larder_store_finish() and larder_store_submit() from
 * here on copies only behind the work queued on `stream` by now (a cudaStream_t or CUstream,
 * NULL is the default stream). Call this before each such call, on the stream that reads and
 * writes the pages. Never waits. Not needed for pages in host memory.
 * LARDER_FAILED_PRECONDITION: the stream is being captured into a graph, or is the legacy stream
 * during a capture of another one; the capture goes on undisturbed. Until the next successful
 * call of this function, loads are refused at once, and stores give their grants back.
 * LARDER_UNAVAILABLE: a CUDA error has ended all copies of this client; the engine goes on
 * without the cache. */
LARDER_API larder_status larder_after_stream(larder_client* client, void* stream);

/* For engines whose KV memory goes for a while and comes back at the same addresses, as in sleep
 * mode. Call larder_pages_leave() before the memory goes, when no load and no store is under
 * way, and larder_pages_are_back() after the return. Begin no load and no store between the two:
 * the library does not check this. A copy onto missing memory ends in a CUDA error, which ends
 * all copies of this client. A larderd that copies itself (transfer: sidecar) closes the memory;
 * the call waits at most `wait_ms` for larderd. LARDER_DEADLINE_EXCEEDED: larderd may still have
 * the memory open. An engine without these calls loses no answer: each copy of larderd's is
 * verified on the pages. */
LARDER_API larder_status larder_pages_leave(larder_client* client, uint32_t wait_ms);
LARDER_API larder_status larder_pages_are_back(larder_client* client);

typedef struct larder_state {
  uint32_t struct_bytes;
  uint32_t attached;    /* 1: larderd answers and the namespace is open */
  uint32_t usable;      /* 1: look-ups can hit; may be 1 while larderd is away */
  uint32_t attachments; /* number of attachments so far */
  uint64_t epoch;       /* of the larderd whose memory is mapped; 0: no memory is mapped */
  uint64_t loads_running;
  uint64_t stores_running;
} larder_state;
LARDER_API larder_status larder_get_state(larder_client* client, larder_state* state);

/* Waits up to timeout_ms until attached. For tools and tests; an engine need not wait.
 * LARDER_DEADLINE_EXCEEDED if not. */
LARDER_API larder_status larder_wait_attached(larder_client* client, uint32_t timeout_ms);

/* Takes the oldest unread log line of the native threads and of refused calls into line,
 * zero-terminated, cut to line_bytes. A line is "level text"; level is info, warning or error. A
 * repetition of the line before is left out. Returns the length, 0 without a line. At most 64
 * lines are kept; the oldest are lost. */
LARDER_API size_t larder_next_log(larder_client* client, char* line, size_t line_bytes);

/* ---- Looking up (the scheduler). No system call, no message, no side effect. ---- */

/* Chunk hashes: the first 16 bytes of each count as key; hash i starts at bytes + i *
 * stride_bytes. */
typedef struct larder_hashes {
  const uint8_t* bytes;
  size_t stride_bytes; /* at least 16 */
  size_t count;
  uint32_t ns; /* number of the namespace: 0, or one of larder_add_namespace() */
  uint32_t reserved;
} larder_hashes;

/* The number of chunks, from the first on, present in all shards and groups: 0..count. */
LARDER_API size_t larder_lookup(larder_client* client, const larder_hashes* hashes);

/* The last chunk present in all shards and groups, counted from 1; 0: no chunk. For states: a
 * hit needs only the last state. */
LARDER_API size_t larder_last(larder_client* client, const larder_hashes* hashes);

/* Announces holds on the chunks until larder_release(): larderd will not reuse their slots.
 * *held is the number of held chunks, from the first on; fewer than count if a chunk went away
 * or the table of holds is full. *hold is 0 if no chunk is held. */
LARDER_API larder_status larder_hold(larder_client* client, const larder_hashes* hashes,
                                     uint64_t* hold, size_t* held);
LARDER_API void larder_release(larder_client* client, uint64_t hold);

/* The decision about a request: larder_request.decision. */
#define LARDER_DECIDED_UNKNOWN 0
#define LARDER_DECIDED_LOAD 1      /* the chunks in memory were loaded */
#define LARDER_DECIDED_FETCH 2     /* more chunks were promoted from lower tiers */
#define LARDER_DECIDED_RECOMPUTE 3 /* lower tiers had more chunks, and computing is faster */
#define LARDER_DECIDED_ABSENT 4    /* there is no chunk to load */

/* One looked-up request. hashes: of all chunks of the request, in order, found or not; may be
 * null. */
typedef struct larder_request {
  uint32_t struct_bytes;
  uint32_t decision;
  uint64_t tokens_asked;
  uint64_t tokens_hit;
  uint64_t lookup_ns;
  const larder_hashes* hashes;
  uint32_t
      salted; /* 1: the request carried a salt, and hits only chunks of requests with this salt */
  uint32_t reserved;
} larder_request;

/* Reports to larderd, for metrics and for the estimate of the gain by more memory. Lossy, one
 * way. */
LARDER_API void larder_report_request(larder_client* client, const larder_request* request);
/* ... and the computed tokens, for the prefill seconds that hits save. */
LARDER_API void larder_report_prefill(larder_client* client, uint64_t tokens, uint64_t compute_ns);

/* ---- Below larderd's memory (the scheduler) ----
 * A larderd may have tiers below memory: a disk, or a backend shared by several larderd. Chunks
 * of these tiers are promoted into memory first, and then looked up, held and loaded as usual. */

typedef struct larder_lower_tiers {
  uint32_t struct_bytes;
  uint32_t present;         /* 1: there is such a tier; else the rest is 0 */
  uint32_t serving;         /* 1: the tier takes reads, and answered the last ones in time */
  uint32_t shared;          /* 1: other larderd use the backend: larder_probe() */
  uint64_t read_latency_ns; /* measured by larderd, as is the next; 0: not yet */
  uint64_t read_bytes_per_s;
} larder_lower_tiers;
/* No system call, no message. */
LARDER_API larder_status larder_get_lower_tiers(larder_client* client, larder_lower_tiers* tiers);

/* The number of chunks, from the first on, in memory or in a lower tier, in all shards and
 * groups: 0..count. No system call, no message, no promise: a chunk of a lower tier may be gone. */
LARDER_API size_t larder_reachable(larder_client* client, const larder_hashes* hashes);
/* The last chunk in memory or in a lower tier, in all shards and groups, counted from 1; 0: no
 * chunk. */
LARDER_API size_t larder_last_reachable(larder_client* client, const larder_hashes* hashes);

/* Why a fetch brought no more chunks. */
#define LARDER_FETCH_DONE 0    /* all requested chunks */
#define LARDER_FETCH_ABSENT 1  /* the next chunk is not there after all */
#define LARDER_FETCH_LATE 2    /* the deadline came first */
#define LARDER_FETCH_NO_ROOM 3 /* all of the memory is in use */
#define LARDER_FETCH_FAILED 4  /* the tier cannot read the chunk, or larderd went away */
#define LARDER_FETCH_BOUND 5   /* too many chunks are fetched at once */

typedef struct larder_fetch_result {
  uint32_t struct_bytes;
  uint32_t running; /* 1: the rest is not yet known */
  /* from the first on: in memory, and kept there until larder_fetch_end() or for a minute */
  uint64_t chunks;
  uint64_t bytes;  /* read for this fetch */
  uint32_t reason; /* LARDER_FETCH_... */
  uint32_t elapsed_us;
} larder_fetch_result;

/* Asks larderd to promote chunks (at most the first 1,024) into memory. The fetch ends
 * deadline_ms later at the latest, with or without an answer of larderd. Give *ticket to
 * larder_fetch_end() in any case; 64 may be outstanding: LARDER_RESOURCE_EXHAUSTED.
 * LARDER_UNSUPPORTED: no such tier. LARDER_UNAVAILABLE: larderd is away. */
LARDER_API larder_status larder_fetch(larder_client* client, const larder_hashes* hashes,
                                      uint32_t deadline_ms, uint64_t* ticket);
/* The state of a fetch. Waits up to wait_ms for the end of a running fetch. LARDER_NOT_FOUND: no
 * such fetch. */
LARDER_API larder_status larder_fetch_poll(larder_client* client, uint64_t ticket, uint32_t wait_ms,
                                           larder_fetch_result* result);
/* Releases the kept chunks, and cancels a running fetch: call this once holds on the chunks
 * stand. */
LARDER_API void larder_fetch_end(larder_client* client, uint64_t ticket);

/* Why a probe reports no more chunks. */
#define LARDER_PROBE_DONE \
  0 /* the backend was asked about all chunks, or all are in memory or on the disk */
#define LARDER_PROBE_LATE 1   /* the deadline came first */
#define LARDER_PROBE_FAILED 2 /* the backend cannot be asked, or larderd went away */
#define LARDER_PROBE_BOUND 3  /* too many questions at once */

typedef struct larder_probe_result {
  uint32_t struct_bytes;
  uint32_t running; /* 1: the rest is not yet known */
  uint64_t chunks;  /* from the first on: in memory, or in reach of larder_fetch(); a hint */
  uint64_t shared;  /* of these, only in the backend */
  /* of a fetch of the chunks below memory; measured by larderd, as is the next */
  uint64_t read_latency_ns;
  uint64_t read_bytes_per_s; /* 0: do not fetch */
  uint32_t reason;           /* LARDER_PROBE_... */
  uint32_t elapsed_us;       /* until the answer was here */
  uint64_t there[16];        /* of larder_probe_each(): bit i % 64 of word i / 64 is chunk i */
} larder_probe_result;

/* Asks larderd for the number of chunks (of the first 1,024 at most) that a fetch would find,
 * also in a backend shared with others, and for the speed. The probe ends deadline_ms later at
 * the latest, with or without an answer of larderd. Give *ticket to larder_probe_end() in any
 * case; 64 may be outstanding: LARDER_RESOURCE_EXHAUSTED. LARDER_UNSUPPORTED: no backend is
 * shared. LARDER_UNAVAILABLE: larderd is away. */
LARDER_API larder_status larder_probe(larder_client* client, const larder_hashes* hashes,
                                      uint32_t deadline_ms, uint64_t* ticket);
/* The same for chunks that count one by one, such as states: the result has each chunk in
 * `there`. `chunks` is the number of the last chunk that a fetch finds, counted from 1. The
 * figures are those of a fetch of this chunk alone. LARDER_UNSUPPORTED also for a larderd older
 * than protocol 1.7. */
LARDER_API larder_status larder_probe_each(larder_client* client, const larder_hashes* hashes,
                                           uint32_t deadline_ms, uint64_t* ticket);
/* The state of a probe. Waits up to wait_ms for the end of a running probe. LARDER_NOT_FOUND: no
 * such probe. */
LARDER_API larder_status larder_probe_poll(larder_client* client, uint64_t ticket, uint32_t wait_ms,
                                           larder_probe_result* result);
/* Cancels the probe, or frees the ticket. */
LARDER_API void larder_probe_end(larder_client* client, uint64_t ticket);

/* ---- Moving (the worker) ---- */

/* In place of a page: a load leaves this block out. For blocks that the engine already holds and
 * may share with running requests, and for null blocks. A store with LARDER_NO_PAGE is refused:
 * LARDER_INVALID_ARGUMENT. */
#define LARDER_NO_PAGE UINT32_MAX

/* Chunks of one shard and group, and the pages of the chunks: pages[i * blocks_per_chunk + b] is
 * block b of chunk i. */
typedef struct larder_transfer {
  uint32_t struct_bytes;
  uint16_t shard;
  uint16_t group;
  larder_hashes hashes;
  const uint32_t* pages;
  size_t page_count;        /* hashes.count * blocks_per_chunk of the group */
  uint32_t start_within_ms; /* a load fails if its copy has not begun by then; 0: 5000 */
  /* For a store: for each hash, at parents + i * hashes.stride_bytes, the hash of the chunk before
   * it in its prompt (16 zero bytes: none). larderd then evicts the tails of prompts before their
   * heads. NULL: unknown. */
  const uint8_t* parents;
} larder_transfer;

/* Starts one asynchronous load, which ends in exactly one completion. A failure at once is
 * returned here, without a completion. LARDER_RESOURCE_EXHAUSTED: 4096 completions wait for a poll,
 * or too many copies run. Pages may be written until the completion is polled, and never after. */
LARDER_API larder_status larder_load(larder_client* client, const larder_transfer* transfer,
                                     uint64_t* ticket);

/* The same, layer by layer: the first layer of all chunks is copied and verified first, so that
 * an engine can begin with this layer while the rest is on its way. Costs more calls of the GPU
 * than larder_load(): for engines that do wait for layers. */
LARDER_API larder_status larder_load_by_layer(larder_client* client,
                                              const larder_transfer* transfer, uint64_t* ticket);

/* Waits up to wait_ms until one layer of such a load (its number in the group, from 0 on) is on
 * its pages and verified, for every chunk of the transfer. LARDER_DEADLINE_EXCEEDED: not yet.
 * LARDER_NOT_FOUND: the completion was polled, or the ticket is not of such a load. Any other
 * error: the load has failed, and all of its layers are void; after the completion no thread
 * writes the pages. Poll for the completion in any case. */
LARDER_API larder_status larder_wait_layer(larder_client* client, uint64_t ticket, uint32_t layer,
                                           uint32_t wait_ms);

typedef struct larder_completion {
  uint64_t ticket;
  uint32_t status; /* larder_status: LARDER_OK means that every byte on the pages was verified */
  uint32_t reserved;
  uint64_t bytes;
  uint64_t wait_ns; /* from larder_load() to the copy's start, behind larder_after_stream() */
  uint64_t copy_ns; /* copy and verification */
} larder_completion;

/* Takes up to max completions of loads; returns the number. Without an ended load waits for one,
 * at most wait_ms; without a running load never waits. An engine without other work so leaves
 * the processor to the copy. */
LARDER_API size_t larder_poll(larder_client* client, larder_completion* completions, size_t max,
                              uint32_t wait_ms);

/* Asks larderd for the right to store; the answer may come while the engine computes. Chunks
 * known to be stored already cost no message. */
LARDER_API larder_status larder_store_begin(larder_client* client, const larder_transfer* transfer);

typedef struct larder_store_result {
  uint32_t struct_bytes;
  uint32_t reserved;
  uint64_t stored;  /* chunks copied and committed */
  uint64_t present; /* stored, or being stored by any engine */
  uint64_t refused; /* no space, no answer in time, larderd away */
  uint64_t bytes;
  uint64_t copy_ns;
} larder_store_result;

/* Ends every store begun since the last call: waits up to wait_ms for outstanding answers,
 * copies the granted chunks from the pages and queues the commits. After the return no page is
 * read. Later grants are given back. */
LARDER_API larder_status larder_store_finish(larder_client* client, uint32_t wait_ms,
                                             larder_store_result* result);

/* The same without a wait: the library's threads copy as larderd's answers come, behind
 * larder_after_stream(). For a GPU, and for engines that keep the pages until the end of the
 * store. The pages are read until the ticket's completion is polled, or larder_store_overtake()
 * returns. Grants that come later than wait_ms are given back. Ends in exactly one completion of
 * larder_store_poll(). LARDER_RESOURCE_EXHAUSTED: 64 completions wait for a poll; the begun
 * stores are given back, and no page is read. After a failed larder_after_stream() returns the
 * same error, with the same effect. */
LARDER_API larder_status larder_store_submit(larder_client* client, uint32_t wait_ms,
                                             uint64_t* ticket);

typedef struct larder_store_completion {
  uint64_t ticket;
  uint64_t stored; /* these as in larder_store_result */
  uint64_t present;
  uint64_t refused;
  uint64_t bytes;
  uint64_t copy_ns;
} larder_store_completion;

/* Takes up to max completions of submitted stores; returns the number. Without an ended store
 * waits for one, at most wait_ms; without a running store never waits. */
LARDER_API size_t larder_store_poll(larder_client* client, larder_store_completion* completions,
                                    size_t max, uint32_t wait_ms);

/* The pages of a submitted store are about to be written by others (its request was preempted).
 * Never waits: chunks not read to their end by the return are given back to larderd and never
 * become visible. The completion comes as usual. */
LARDER_API void larder_store_overtake(larder_client* client, uint64_t ticket);

/* Gives up every store begun since the last larder_store_finish() or larder_store_submit():
 * larderd gets the grants back, no page is read. For a failed forward pass, or an engine that
 * stops storing. A store without a finish or an abandon for two minutes is given up as well. */
LARDER_API larder_status larder_store_abandon(larder_client* client);

/* The engine's weights or cache were reset: larderd drops all chunks of this client's
 * namespaces. From here on this client finds no such chunk. An absent larderd drops the chunks
 * after its return, before the first look-up. */
LARDER_API larder_status larder_drop_namespace(larder_client* client);

/* ---- Chunks kept by hand ---- */

/* Counts of hashes. A hash stands for the chunks of all shards and groups of this client's
 * namespace. */
typedef struct larder_act_result {
  uint32_t struct_bytes;
  uint32_t reserved;
  uint64_t found;   /* there, and the call took effect */
  uint64_t absent;  /* absent, or incomplete */
  uint64_t refused; /* there, but over a bound: at most half of the memory can be pinned */
} larder_act_result;

/* All six ask larderd, wait up to wait_ms for the answer and write the counts into result,
 * which may be NULL. With wait_ms 0 the calls do not wait, and the counts are 0. Hashes are
 * those of larder_lookup(), at most 65,536 at once: else LARDER_OUT_OF_RANGE.
 * LARDER_UNAVAILABLE: larderd is away. LARDER_UNSUPPORTED: larderd is older than the call.
 * LARDER_DEADLINE_EXCEEDED: no answer in time; the call may take effect all the same.
 * LARDER_RESOURCE_EXHAUSTED: too many calls wait. Later chunks are not affected. */

/* Promotes chunks into memory ahead of their use. Chunks in memory count as just used and go
 * last when room is needed. In a namespace of larder_add_state_namespace(): only the last chunk
 * with all shards and groups in reach; only the last 1,024 hashes are considered. */
LARDER_API larder_status larder_prefetch(larder_client* client, const larder_hashes* hashes,
                                         uint32_t wait_ms, larder_act_result* result);
/* Keeps chunks in memory until the chunks are unpinned, evicted by hand, found bad, or dropped
 * with their namespace; at most for the life of larderd. A second pin changes nothing: pins are
 * larderd's, not this client's. */
LARDER_API larder_status larder_pin(larder_client* client, const larder_hashes* hashes,
                                    uint32_t wait_ms, larder_act_result* result);
LARDER_API larder_status larder_unpin(larder_client* client, const larder_hashes* hashes,
                                      uint32_t wait_ms, larder_act_result* result);
/* Takes chunks out of memory at once, pinned or not; a chunk under a load goes after its last
 * reader. */
LARDER_API larder_status larder_evict(larder_client* client, const larder_hashes* hashes,
                                      uint32_t wait_ms, larder_act_result* result);
/* Makes chunks the next to leave memory when room is needed. A later use makes them ordinary chunks
 * again. Pinned chunks stay, and so do copies in lower tiers. Give the hashes of a prompt in its
 * order. */
LARDER_API larder_status larder_demote(larder_client* client, const larder_hashes* hashes,
                                       uint32_t wait_ms, larder_act_result* result);
/* Keeps chunks in memory for keep_s seconds, 1 to 86,400, and makes them ordinary chunks then. A
 * second keep of a chunk can only prolong the first. larder_demote() ends keeps, and so does all
 * that ends a pin. Refused: over the share of the memory that larderd keeps. When larderd finds no
 * other room, the keep with the least time left ends early. */
LARDER_API larder_status larder_keep(larder_client* client, const larder_hashes* hashes,
                                     uint32_t keep_s, uint32_t wait_ms, larder_act_result* result);

/* ---- Files of a model: needs no client ---- */

typedef struct larder_file_hash {
  uint32_t struct_bytes;
  uint32_t limit_local;    /* in: 1: the limit holds for local file systems as well */
  uint64_t uncached_limit; /* in: the most bytes to read from outside the page cache */
  uint8_t digest[16];      /* XXH3-128 of the content, as `xxh128sum` prints it */
  uint64_t device;         /* of the read file, as are the next four; times in ns since the epoch */
  uint64_t inode;
  uint64_t size_bytes;
  int64_t mtime_ns;
  int64_t ctime_ns;
  uint64_t uncached_bytes; /* outside the page cache; 0 if the limit does not hold */
  uint32_t local;          /* 1: on a local file system; the limit is for others */
  uint32_t reserved;
} larder_file_hash;

/* Reads the whole regular file at `path` with plain reads, on the calling thread, at the speed
 * of the disk. Another thread ends the call between two reads of 1 MiB by setting *stop (may be
 * NULL) to another value than 0: LARDER_DEADLINE_EXCEEDED. LARDER_UNAVAILABLE: the file changed
 * during the read. LARDER_OUT_OF_RANGE: the file is not on a local file system, and more than
 * uncached_limit of its bytes are outside the page cache; the call read no byte.
 * LARDER_NOT_FOUND, LARDER_PERMISSION_DENIED, LARDER_INVALID_ARGUMENT (no regular file),
 * LARDER_INTERNAL (a read failed). *file is written with LARDER_OK alone. A `why` other than
 * NULL gets the reason in words, cut to why_bytes and zero-terminated. */
LARDER_API larder_status larder_hash_file(const char* path, const int32_t* stop,
                                          larder_file_hash* file, char* why, size_t why_bytes);

#ifdef __cplusplus
}
#endif
#endif /* LARDER_H_ */
