/* larder.h: the C ABI of liblarder.so, the shim inside an inference engine. The only exported symbols.
 *
 * A client stands for one engine process attached to one larderd. It never blocks the caller on larderd: opening succeeds while
 * larderd is absent, a native thread attaches and re-attaches by itself, and until then everything is a miss.
 *
 * Threads: every function may be called from any thread, unless it says otherwise. Forked children: every function fails with
 * LARDER_FAILED_PRECONDITION or reports a miss; the parent is not disturbed.
 * Ownership: pointers passed in are only read during the call, except for registered pages, which must stay valid and mapped until
 * larder_close() has returned. Strings are UTF-8 and zero-terminated.
 * Errors: functions return a larder_status; larder_status_text() tells it in words. Nothing throws, nothing aborts. What a caller
 * did wrong in setting up, loading, storing or dropping is also told in full by larder_next_log(): "error larder_register_pages:
 * the namespace has 2 layers, got 1".
 * Versions: structs begin with their size in bytes, set by the caller; fields behind it are taken as 0. */
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

/* Stops and frees it: waits until no thread of it writes into registered pages. No other call may be under way. NULL is fine. */
LARDER_API void larder_close(larder_client* client);

typedef struct larder_group {
  uint64_t piece_bytes; /* one layer's part of one block */
  uint32_t layers; /* 0: a stage of a pipeline (layout_of_shard) without a layer of the group; larder_set_parts() */
  uint32_t blocks_per_chunk; /* a chunk is layers * blocks_per_chunk pieces */
} larder_group;

typedef struct larder_namespace {
  uint32_t struct_bytes;
  uint32_t shard_count; /* a hit needs the chunk of every shard and group */
  const char*
      fingerprint; /* canonical text, "field: value" lines; its XXH3-128 is the namespace's id. Empty where it is not known yet: the
                              client attaches, its number 0 is a miss, and larder_add_namespace() gives the number of the text once it is known */
  const char* model; /* served name, a metric label */
  const larder_group* groups;
  uint32_t group_count;
  uint32_t chunk_tokens;
  uint32_t layout_of_shard;   /* 0: every shard's groups are as told here; n + 1: shard n's are, others have other layers */
  uint32_t state_group_count; /* how many of the groups, the last ones, hold recurrent states: larder_add_state_namespace() */
} larder_namespace;

/* Sets the namespace of this client, once, before anything else. It is announced at every attachment. */
LARDER_API larder_status larder_set_namespace(larder_client* client, const larder_namespace* ns);

/* Tells which parts of a chunk this client's larderd keeps, for every namespace. A part is one shard's pieces of one group; kept has a byte
 * for each, part_count of them, kept[shard * group_count + group]: 0 where larderd has none, because the shard's stage has no layer of the
 * group (layers is 0 there), or the shard's rank runs on another node. A hit needs the parts that are kept. Every client of an engine
 * tells its larderd the same. Once, with an empty fingerprint in larder_set_namespace(), before larder_add_namespace(); without this call
 * all parts are kept. A larderd of protocol 1.7 or older opens no namespace where a part is left out (larder_next_log() says so).
 * LARDER_INVALID_ARGUMENT: no part is left, or the parts contradict this shard's layers. LARDER_FAILED_PRECONDITION: too late. */
LARDER_API larder_status larder_set_parts(larder_client* client, const uint8_t* kept, size_t part_count);

/* Adds a namespace of the same geometry with another fingerprint (an adapter's), at any time. *ns is its number, to be named in
 * larder_hashes; the same fingerprint has the same number, and the first namespace is 0. Until larderd has opened it its chunks are
 * misses. model may be NULL: the first namespace's. At most 64 a client at a time: LARDER_RESOURCE_EXHAUSTED until one is closed. */
LARDER_API larder_status larder_add_namespace(larder_client* client, const char* fingerprint, const char* model, uint32_t* ns);

/* The same for a namespace of recurrent states (Mamba and the like), whose chunks have the state groups of larder_set_namespace()
 * alone, where chunks of other namespaces have the groups before them. One chunk is the state at the end of its last token, in every
 * layer of the model that keeps one. Numbers of groups are the client's in every call. */
LARDER_API larder_status larder_add_state_namespace(larder_client* client, const char* fingerprint, const char* model,
                                                    uint32_t* ns);

/* Closes namespace `ns` (1 or above, of larder_add_namespace). Waits for nothing. From here on the number is a miss in every call, and its
 * place serves a later larder_add_namespace, which gives another number. Loads that run finish; stores that were begun are committed or
 * given back as ever; a fetch or a probe ends by its deadline. Its chunks stay in larderd until they are evicted, unless flags has
 * LARDER_CLOSE_DROP: then the last session that closes the namespace has them dropped from larderd's memory (tiers below let them expire;
 * a larderd of protocol 1.5 or older, or one that is away, keeps them). LARDER_NOT_FOUND: no such namespace, or it is closed. */
#define LARDER_CLOSE_DROP 1u
LARDER_API larder_status larder_close_namespace(larder_client* client, uint32_t ns, uint32_t flags);

/* Waits until larderd has opened namespace `ns`, at most timeout_ms: LARDER_DEADLINE_EXCEEDED. Where no session is alive it returns
 * LARDER_UNAVAILABLE at once; LARDER_NOT_FOUND: it is closed. */
LARDER_API larder_status larder_wait_namespace(larder_client* client, uint32_t ns, uint32_t timeout_ms);

/* The namespace id as 32 hex digits and a zero: at least 33 bytes. */
LARDER_API larder_status larder_namespace_id(const char* fingerprint, char* hex, size_t hex_bytes);

/* One layer's KV pages of this engine: page i is page_bytes bytes at base + i * stride_bytes. Gaps between them are left alone. */
typedef struct larder_pages {
  void* base;
  uint64_t stride_bytes;
  uint64_t page_bytes;
  uint64_t page_count;
} larder_pages;

/* Gives the pages of one group, a larder_pages for each layer, in the order of the fingerprint's layers. Once a group. They lie in
 * host memory or on a CUDA device of this process, all of one kind: LARDER_UNSUPPORTED. */
LARDER_API larder_status larder_register_pages(larder_client* client, uint32_t group, const larder_pages* layers,
                                               uint32_t layer_count);

/* For pages on a CUDA device: every load, larder_store_finish() and larder_store_submit() from here on copies only behind what is queued on
 * `stream` (a cudaStream_t or CUstream, NULL is the default stream) by now. Call it before each of them, on the
 * stream that reads and writes the pages. Waits for nothing. Pages in host memory: nothing is to be done.
 * LARDER_FAILED_PRECONDITION: that stream is being captured into a graph, or is the legacy one while another is; the capture goes on as if nobody had asked.
 * Whatever is asked from here on is refused alike, until this is called again with success: loads at once, and stores give back what was begun.
 * LARDER_UNAVAILABLE: a CUDA error has ended all copies of this client; the engine goes on without the cache. */
LARDER_API larder_status larder_after_stream(larder_client* client, void* stream);

/* For engines whose memory of KV pages goes for a while, as in sleep mode, and is there again at the same addresses: call this before it goes, when
 * no load and no store is under way, and larder_pages_are_back() when it is there. Between the two ask for no load and no store: that is not looked at,
 * and a copy onto memory that is not there ends in a CUDA error, which ends all copies of this client. Where larderd copies itself (transfer:
 * sidecar) it lets go of that memory, at most `wait_ms` are waited for it: LARDER_DEADLINE_EXCEEDED, and it may still be open there.
 * Who does not call it loses no answer: each copy of larderd's is verified on the pages. */
LARDER_API larder_status larder_pages_leave(larder_client* client, uint32_t wait_ms);
LARDER_API larder_status larder_pages_are_back(larder_client* client);

typedef struct larder_state {
  uint32_t struct_bytes;
  uint32_t attached;    /* 1: larderd answers and the namespace is open */
  uint32_t usable;      /* 1: look-ups can hit; may be 1 while larderd is away */
  uint32_t attachments; /* how often it attached */
  uint64_t epoch;       /* of the sidecar's life whose memory is mapped, 0 if none is */
  uint64_t loads_running;
  uint64_t stores_running;
} larder_state;
LARDER_API larder_status larder_get_state(larder_client* client, larder_state* state);

/* Waits up to timeout_ms until attached. For tools and tests; an engine need not wait. LARDER_DEADLINE_EXCEEDED if not. */
LARDER_API larder_status larder_wait_attached(larder_client* client, uint32_t timeout_ms);

/* Takes the oldest unread log line of the native threads and of refused calls ("level text"; level is info, warning or error; a
 * line that only repeats the one before it is left out) into line, zero-terminated, cut to line_bytes.
 * Returns its length, 0 if there is none. At most 64 lines are kept; the oldest are lost. */
LARDER_API size_t larder_next_log(larder_client* client, char* line, size_t line_bytes);

/* ---- Looking up (the scheduler). No system call, no message, no side effect. ---- */

/* Chunk hashes: the first 16 bytes of each count as key; hash i starts at bytes + i * stride_bytes. */
typedef struct larder_hashes {
  const uint8_t* bytes;
  size_t stride_bytes; /* at least 16 */
  size_t count;
  uint32_t ns; /* number of the namespace: 0, or one of larder_add_namespace() */
  uint32_t reserved;
} larder_hashes;

/* How many chunks from the first on are present in all shards and groups: 0..count. */
LARDER_API size_t larder_lookup(larder_client* client, const larder_hashes* hashes);

/* The last chunk that is present in all shards and groups, counted from 1; 0: none is. For states, of which a hit needs the last one
 * alone. */
LARDER_API size_t larder_last(larder_client* client, const larder_hashes* hashes);

/* Announces holds on the chunks until larder_release(): larderd will not reuse their slots. *held is how many from the first on are
 * held (fewer than count where one went away or the table of holds is full); *hold is 0 when none is. */
LARDER_API larder_status larder_hold(larder_client* client, const larder_hashes* hashes, uint64_t* hold, size_t* held);
LARDER_API void larder_release(larder_client* client, uint64_t hold);

/* What was done about a request: larder_request.decision. */
#define LARDER_DECIDED_UNKNOWN 0
#define LARDER_DECIDED_LOAD 1      /* what is in memory was loaded */
#define LARDER_DECIDED_FETCH 2     /* more was brought up from below for it */
#define LARDER_DECIDED_RECOMPUTE 3 /* there was more below, and computing it is faster */
#define LARDER_DECIDED_ABSENT 4    /* there is nothing to load */

/* One request that was looked up. hashes: of all chunks that it asked for, in order, found or not; may be null. */
typedef struct larder_request {
  uint32_t struct_bytes;
  uint32_t decision;
  uint64_t tokens_asked;
  uint64_t tokens_hit;
  uint64_t lookup_ns;
  const larder_hashes* hashes;
  uint32_t salted; /* 1: it carried a salt, so that it hits only what requests with the same one computed */
  uint32_t reserved;
} larder_request;

/* Tells larderd, for its metrics and its estimate of what more memory would bring. Lossy, one way. */
LARDER_API void larder_report_request(larder_client* client, const larder_request* request);
/* ... and of what the engine computed, for the prefill seconds that hits save. */
LARDER_API void larder_report_prefill(larder_client* client, uint64_t tokens, uint64_t compute_ns);

/* ---- Below larderd's memory (the scheduler) ----
 * Where larderd has a tier below its memory (a disk, a backend that larderds share), chunks that are there are brought up before they
 * are looked up, held and loaded as ever. */

typedef struct larder_lower_tiers {
  uint32_t struct_bytes;
  uint32_t present;         /* 1: there is such a tier; else the rest is 0 */
  uint32_t serving;         /* 1: it takes reads, and answered the last ones in time */
  uint32_t shared;          /* 1: larderd also fetches from a backend that others write to: larder_probe() tells what is there */
  uint64_t read_latency_ns; /* measured by larderd, as is the next; 0: not yet */
  uint64_t read_bytes_per_s;
} larder_lower_tiers;
/* No system call, no message. */
LARDER_API larder_status larder_get_lower_tiers(larder_client* client, larder_lower_tiers* tiers);

/* How many chunks from the first on are in memory or in a lower tier, in all shards and groups: 0..count. No system call, no
 * message, no promise: a chunk of a lower tier may be gone. */
LARDER_API size_t larder_reachable(larder_client* client, const larder_hashes* hashes);
/* The last chunk that is in memory or in a lower tier, in all shards and groups, counted from 1; 0: none is. */
LARDER_API size_t larder_last_reachable(larder_client* client, const larder_hashes* hashes);

/* Why a fetch brought no more than it did. */
#define LARDER_FETCH_DONE 0    /* all that was asked */
#define LARDER_FETCH_ABSENT 1  /* the next one is not there after all */
#define LARDER_FETCH_LATE 2    /* its deadline came first */
#define LARDER_FETCH_NO_ROOM 3 /* all of the memory is in use */
#define LARDER_FETCH_FAILED 4  /* the tier cannot read it, or larderd went away */
#define LARDER_FETCH_BOUND 5   /* too much is fetched at once */

typedef struct larder_fetch_result {
  uint32_t struct_bytes;
  uint32_t running; /* 1: the rest is not yet known */
  uint64_t chunks;  /* from the first on: in memory, and kept there until larder_fetch_end() or for a minute */
  uint64_t bytes;   /* that were read for it */
  uint32_t reason;  /* LARDER_FETCH_... */
  uint32_t elapsed_us;
} larder_fetch_result;

/* Asks larderd to bring chunks (at most the first 1,024) into memory. It ends deadline_ms later at the latest, whether larderd
 * answers or not. *ticket is to be given to larder_fetch_end() in any case; 64 may be outstanding: LARDER_RESOURCE_EXHAUSTED.
 * LARDER_UNSUPPORTED: no such tier. LARDER_UNAVAILABLE: larderd is away. */
LARDER_API larder_status larder_fetch(larder_client* client, const larder_hashes* hashes, uint32_t deadline_ms, uint64_t* ticket);
/* How it stands. Where it runs, waits up to wait_ms for its end. LARDER_NOT_FOUND: no such fetch. */
LARDER_API larder_status larder_fetch_poll(larder_client* client, uint64_t ticket, uint32_t wait_ms, larder_fetch_result* result);
/* What it keeps is given free, and what still runs is cancelled: call it once holds on the chunks stand. */
LARDER_API void larder_fetch_end(larder_client* client, uint64_t ticket);

/* Why a probe reports no more chunks than it does. */
#define LARDER_PROBE_DONE 0   /* the backend was asked about all, or all are in memory or on the disk */
#define LARDER_PROBE_LATE 1   /* its deadline came first */
#define LARDER_PROBE_FAILED 2 /* the backend cannot be asked, or larderd went away */
#define LARDER_PROBE_BOUND 3  /* too much is asked at once */

typedef struct larder_probe_result {
  uint32_t struct_bytes;
  uint32_t running; /* 1: the rest is not yet known */
  uint64_t chunks;  /* from the first on: in memory, or where larder_fetch() reads them; a hint, as of larder_reachable() */
  uint64_t shared;  /* of these, those in the backend alone */
  uint64_t read_latency_ns;  /* of a fetch of those that are not in memory, measured by larderd, as is the next */
  uint64_t read_bytes_per_s; /* 0: fetch nothing */
  uint32_t reason;           /* LARDER_PROBE_... */
  uint32_t elapsed_us;       /* until the answer was here */
  uint64_t there[16];        /* of larder_probe_each(): a fetch finds chunk i where bit i % 64 of word i / 64 is 1 */
} larder_probe_result;

/* Asks larderd how many chunks (of the first 1,024 at most) a fetch would find, also in a backend that it shares with others, and how
 * fast. It ends deadline_ms later at the latest, whether larderd answers or not. *ticket is to be given to larder_probe_end() in any
 * case; 64 may be outstanding: LARDER_RESOURCE_EXHAUSTED. LARDER_UNSUPPORTED: no backend is shared. LARDER_UNAVAILABLE: larderd is
 * away. */
LARDER_API larder_status larder_probe(larder_client* client, const larder_hashes* hashes, uint32_t deadline_ms, uint64_t* ticket);
/* The same for chunks of which each counts by itself, as states do: the result tells of each in `there`. `chunks` is the number of the
 * last one that a fetch finds, counted from 1, and the figures are those of a fetch of that one alone. LARDER_UNSUPPORTED also for a
 * larderd that is older than protocol 1.7. */
LARDER_API larder_status larder_probe_each(larder_client* client, const larder_hashes* hashes, uint32_t deadline_ms,
                                           uint64_t* ticket);
/* How it stands. Where it runs, waits up to wait_ms for its end. LARDER_NOT_FOUND: no such probe. */
LARDER_API larder_status larder_probe_poll(larder_client* client, uint64_t ticket, uint32_t wait_ms, larder_probe_result* result);
/* Gives it up, or frees its ticket. */
LARDER_API void larder_probe_end(larder_client* client, uint64_t ticket);

/* ---- Moving (the worker) ---- */

/* In place of a page: a load leaves this block out. For blocks that the engine already holds and may share with running requests,
 * and for null blocks. A store refuses it: LARDER_INVALID_ARGUMENT. */
#define LARDER_NO_PAGE UINT32_MAX

/* Chunks of one shard and group and the pages they stand on: pages[i * blocks_per_chunk + b] is block b of chunk i. */
typedef struct larder_transfer {
  uint32_t struct_bytes;
  uint16_t shard;
  uint16_t group;
  larder_hashes hashes;
  const uint32_t* pages;
  size_t page_count;        /* hashes.count * blocks_per_chunk of the group */
  uint32_t start_within_ms; /* load: fails unless its copy began by then; 0: 5000 */
} larder_transfer;

/* Starts one asynchronous load. Ends in exactly one completion. A failure at once (no completion) is returned here. Pages may be
 * written until the completion is polled, and never after. */
LARDER_API larder_status larder_load(larder_client* client, const larder_transfer* transfer, uint64_t* ticket);

/* The same, layer by layer: the first layer of all chunks is copied and verified first, so that an engine can begin with it while the
 * rest is on its way. Costs more calls of the GPU than larder_load(): for engines that do wait for layers. */
LARDER_API larder_status larder_load_by_layer(larder_client* client, const larder_transfer* transfer, uint64_t* ticket);

/* Waits up to wait_ms until one layer of such a load (its number in the group, from 0 on) is on its pages, and verified, for every chunk of
 * the transfer. LARDER_DEADLINE_EXCEEDED: not yet. LARDER_NOT_FOUND: its completion was polled, or the ticket is no such load's. Else the
 * load has failed, and what its layers gave is void: the completion tells when its pages are no longer written. Keep polling for that
 * in any case. */
LARDER_API larder_status larder_wait_layer(larder_client* client, uint64_t ticket, uint32_t layer, uint32_t wait_ms);

typedef struct larder_completion {
  uint64_t ticket;
  uint32_t status; /* larder_status: LARDER_OK means that every byte on the pages was verified */
  uint32_t reserved;
  uint64_t bytes;
  uint64_t wait_ns; /* from larder_load() to the copy's start, which is behind larder_after_stream() */
  uint64_t copy_ns; /* copy and verification */
} larder_completion;

/* Takes up to max completions of loads; returns how many. Where no load has ended it waits until one does, at most wait_ms, and not
 * at all where none runs: an engine with nothing else to do leaves the processor to the copy. */
LARDER_API size_t larder_poll(larder_client* client, larder_completion* completions, size_t max, uint32_t wait_ms);

/* Asks larderd for the right to store; the answer may come while the engine computes. Chunks that are known to be stored already
 * cost nothing. */
LARDER_API larder_status larder_store_begin(larder_client* client, const larder_transfer* transfer);

typedef struct larder_store_result {
  uint32_t struct_bytes;
  uint32_t reserved;
  uint64_t stored;  /* chunks copied and committed */
  uint64_t present; /* stored or being stored by somebody */
  uint64_t refused; /* no space, no answer in time, larderd away */
  uint64_t bytes;
  uint64_t copy_ns;
} larder_store_result;

/* Ends every store begun since the last call: waits up to wait_ms for outstanding answers, copies what was granted off the pages
 * and queues the commits. When it returns no page is read any more. Grants that come later are given back. */
LARDER_API larder_status larder_store_finish(larder_client* client, uint32_t wait_ms, larder_store_result* result);

/* The same, and waits for nothing: the library's threads copy, as larderd's answers come, behind larder_after_stream(). For a GPU, and for
 * engines that keep the pages until it has ended: they are read until the ticket's completion is polled, or larder_store_overtake() returns.
 * Answers that come later than wait_ms are given back. Ends in exactly one completion of larder_store_poll(). LARDER_RESOURCE_EXHAUSTED: 64
 * are not polled yet; what was begun is given back, no page is read. That of larder_after_stream() where it failed last: the same. */
LARDER_API larder_status larder_store_submit(larder_client* client, uint32_t wait_ms, uint64_t* ticket);

typedef struct larder_store_completion {
  uint64_t ticket;
  uint64_t stored; /* these as in larder_store_result */
  uint64_t present;
  uint64_t refused;
  uint64_t bytes;
  uint64_t copy_ns;
} larder_store_completion;

/* Takes up to max completions of submitted stores; returns how many. Where none has ended it waits until one does, at most wait_ms, and
 * not at all where none runs. */
LARDER_API size_t larder_store_poll(larder_client* client, larder_store_completion* completions, size_t max, uint32_t wait_ms);

/* The pages of a submitted store are about to be written by others (its request was preempted). Waits for nothing: chunks that were not
 * read to their end when it returns are given back to larderd and never seen. Its completion comes as ever. */
LARDER_API void larder_store_overtake(larder_client* client, uint64_t ticket);

/* Gives up every store begun since the last larder_store_finish() or larder_store_submit(): larderd gets its grants back, no page is
 * read. For a forward pass that failed, or an engine that stops storing. A store that is neither finished nor abandoned for two minutes
 * is given up as well. */
LARDER_API larder_status larder_store_abandon(larder_client* client);

/* The engine's weights or cache were reset: larderd drops everything in this client's namespaces. From here on this client finds
 * nothing of it, even while larderd is away: then it is dropped when it is back, before anything is looked up again. */
LARDER_API larder_status larder_drop_namespace(larder_client* client);

/* ---- What is kept, by hand ---- */

/* Counts of hashes. A hash stands for the chunks of all shards and groups of this client's namespace. */
typedef struct larder_act_result {
  uint32_t struct_bytes;
  uint32_t reserved;
  uint64_t found;   /* there, and it was done */
  uint64_t absent;  /* not there, or not in whole */
  uint64_t refused; /* there, but over a bound: at most half of the memory can be pinned */
} larder_act_result;

/* All four ask larderd, wait up to wait_ms for its answer and write the counts into result, which may be NULL. With wait_ms 0 they
 * do not wait, and the counts are 0. Hashes are those of larder_lookup(), at most 65,536 at once: else LARDER_OUT_OF_RANGE.
 * LARDER_UNAVAILABLE: larderd is away. LARDER_UNSUPPORTED: it is older than these calls. LARDER_DEADLINE_EXCEEDED: no answer in
 * time, it may be done all the same. LARDER_RESOURCE_EXHAUSTED: too many calls wait. Chunks that come later are not affected. */

/* Brings chunks into memory ahead of their use. What is there already counts as just used and goes last when room is needed. In a
 * namespace of larder_add_state_namespace(): the last chunk of which all shards and groups can be reached, and no other;
 * only the last 1,024 hashes are considered. */
LARDER_API larder_status larder_prefetch(larder_client* client, const larder_hashes* hashes, uint32_t wait_ms,
                                         larder_act_result* result);
/* Keeps chunks in memory until they are unpinned, evicted by hand, found bad, or their namespace is dropped; not beyond larderd's
 * life. Pinning twice is pinning once: pins are larderd's, not this client's. */
LARDER_API larder_status larder_pin(larder_client* client, const larder_hashes* hashes, uint32_t wait_ms,
                                    larder_act_result* result);
LARDER_API larder_status larder_unpin(larder_client* client, const larder_hashes* hashes, uint32_t wait_ms,
                                      larder_act_result* result);
/* Takes chunks out of memory at once, pinned or not; one that is being loaded goes when nobody reads it any more. */
LARDER_API larder_status larder_evict(larder_client* client, const larder_hashes* hashes, uint32_t wait_ms,
                                      larder_act_result* result);

/* ---- Files of a model: needs no client ---- */

typedef struct larder_file_hash {
  uint32_t struct_bytes;
  uint32_t limit_local;    /* in: 1: the limit holds for local file systems as well */
  uint64_t uncached_limit; /* in: most bytes to be read that the page cache does not hold */
  uint8_t digest[16];      /* XXH3-128 of the content, as `xxh128sum` prints it */
  uint64_t device;         /* of the file as it was read, as are the next four; times in ns since the epoch */
  uint64_t inode;
  uint64_t size_bytes;
  int64_t mtime_ns;
  int64_t ctime_ns;
  uint64_t uncached_bytes; /* that the page cache did not hold; 0 where the limit does not hold */
  uint32_t local;          /* 1: on a local file system; the limit is for others */
  uint32_t reserved;
} larder_file_hash;

/* Reads the whole regular file at `path` with plain reads, on the calling thread, at the speed of
 * the disk. Another thread ends the call between two reads of 1 MiB by setting *stop (may be NULL)
 * to another value than 0: LARDER_DEADLINE_EXCEEDED.
 * LARDER_UNAVAILABLE: the file changed while it was read. LARDER_OUT_OF_RANGE: the file is not on a
 * local file system, and more of its bytes than uncached_limit are not in the page cache; none was
 * read. LARDER_NOT_FOUND, LARDER_PERMISSION_DENIED, LARDER_INVALID_ARGUMENT (no regular file),
 * LARDER_INTERNAL (a read failed). *file is written with LARDER_OK alone.
 * `why`, where it is not NULL, gets the reason in words, cut to why_bytes and zero-terminated. */
LARDER_API larder_status larder_hash_file(const char* path, const int32_t* stop, larder_file_hash* file, char* why,
                                          size_t why_bytes);

#ifdef __cplusplus
}
#endif
#endif /* LARDER_H_ */
