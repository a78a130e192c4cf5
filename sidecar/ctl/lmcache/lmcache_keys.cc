#include "sidecar/ctl/lmcache/lmcache_keys.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "sidecar/base/text.h"

namespace larder::ctl {
namespace {

using enum Counterpart;

// Remarks that several keys share. Import::note() puts keys with the same remark into one comment
// line.
constexpr std::string_view kOneThread =
    "one thread of larderd does all reads and writes of a backend";
constexpr std::string_view kText =
    "Larder serves prefixes only, not text at other positions (CacheBlend)";
constexpr std::string_view kPeerPort =
    "larderd asks its peers itself, and serves all of them at one port: peers.listen";
constexpr std::string_view kPeerTransport = "larderd reads from its peers over TCP";
constexpr std::string_view kDisaggregated =
    "Larder stores KV and does not transport KV from prefill to decode engines: use a connector of "
    "vLLM";
constexpr std::string_view kGpuDirect = "the GPU does not read storage directly";
constexpr std::string_view kPlugin = "larderd has no plugins";
constexpr std::string_view kController = "Larder has no controller: larderctl asks each larderd";
constexpr std::string_view kLazy =
    "larderd is ready at once and touches its memory in the background";
constexpr std::string_view kHttp =
    "larderd serves metrics, health and status on http.listen, admin verbs on http.admin_socket";
constexpr std::string_view kDeadlines = "every wait has a deadline, and a late answer is a miss";
constexpr std::string_view kPins = "a hold ends with the report of the load, or with the engine";
constexpr std::string_view kStatistics =
    "larderctl status and /metrics count hits, tokens and bytes";
constexpr std::string_view kHidden = "Larder stores KV only, no hidden states";
constexpr std::string_view kScripts = "larderd runs no scripts";
constexpr std::string_view kSocket =
    "engines find larderd by its Unix socket: LARDER_SOCKET, or `socket` in "
    "kv_connector_extra_config";

constexpr std::string_view kOneLoop = "one event loop serves all engines, which copy by themselves";
constexpr std::string_view kOwnGroups = "each KV group of a hybrid model always has its own chunks";
constexpr std::string_view kSharedMemory =
    "engines and larderd always share memory over a Unix socket";
constexpr std::string_view kDeaths = "larderd notices the end of an engine at once";
constexpr std::string_view kPlace = "larderd evicts a chunk when another chunk needs the place";
constexpr std::string_view kOneMemory = "memory is one arena in DRAM";
constexpr std::string_view kPages = "metrics are on /metrics of http.listen";
constexpr std::string_view kNoTraces = "larderd sends no traces";
constexpr std::string_view kRecorded = "larderctl trace records the look-ups of engines";
constexpr std::string_view kDiskQueue = "larderd chooses the number of bytes in flight";

// Every documented key has a row, so that no setting is dropped silently. An empty remark belongs
// to keys with a converter in lmcache.cc.
constexpr LmcacheKey kKeys[] = {
    // Memory.
    {"chunk_size", kConverted, ""},
    {"local_cpu", kConverted, ""},
    {"max_local_cpu_size", kConverted, ""},
    {"local_cpu_use_hugepages", kConverted, ""},
    {"reserve_local_cpu_size", kAlways, "memory.size is a fixed size"},
    {"enable_lazy_memory_allocator", kAlways, kLazy},
    {"lazy_memory_initial_ratio", kAlways, kLazy},
    {"lazy_memory_expand_trigger_ratio", kAlways, kLazy},
    {"lazy_memory_step_ratio", kAlways, kLazy},
    {"lazy_memory_safe_size", kAlways, kLazy},
    {"numa_mode", kConverted, ""},
    // The last value of a row needs no remark: with "LRU" both do the same.
    {"cache_policy", kNone, "larderd always evicts the least recently used chunk first", "LRU"},
    // Disk and remote.
    // Path and size belong together (Import::disk() in lmcache.cc).
    {"local_disk", kConverted, ""},
    {"max_local_disk_size", kConverted, ""},
    {"local_disk_path_sharding", kNone, "the disk tier is one file in one directory"},
    {"remote_url", kConverted, ""},
    // "naive" is LMCache's name for no compression.
    {"remote_serde", kNone,
     "Larder stores the KV of the engine unchanged, without lossy compression", "naive"},
    // These settings meet in lmcache_backend.cc, which makes one URL of them.
    {"resp_host", kConverted, ""},
    {"resp_port", kConverted, ""},
    {"resp_username", kConverted, ""},
    {"resp_password", kConverted, ""},
    {"audit_actual_remote_url", kNone, "the setting is for LMCache's own audits"},
    {"gds_path", kNone, kGpuDirect},
    {"gds_path_sharding", kNone, kGpuDirect},
    {"gds_buffer_size", kNone, kGpuDirect},
    {"cufile_buffer_size", kNone, kGpuDirect},
    {"use_gds", kNone, kGpuDirect},
    {"gds_backend", kNone, kGpuDirect},
    {"weka_path", kNone, kGpuDirect},
    {"maru_path", kNone, "Larder has no Maru backend"},
    {"maru_pool_size", kNone, "Larder has no Maru backend"},
    {"retrieve_locations", kNone, "Larder chooses the tier of each read"},
    {"store_location", kNone, "Larder chooses the tier of each store"},
    // Stores and look-ups.
    {"save_decode_cache", kAlways, "the engine stores each full chunk, in prefill and decode"},
    {"save_unfull_chunk", kNone,
     "see tails in kv_connector_extra_config, which stores the whole blocks behind the last chunk"},
    {"use_layerwise", kNone,
     "a chunk holds all layers and loads before the request runs, while other requests run"},
    {"enable_async_loading", kAlways, "loads are asynchronous always"},
    // vLLM computes the block hashes, and Larder's keys are these hashes.
    {"pre_caching_hash_algorithm", kAlways,
     "the keys are vLLM's own block hashes: see its --prefix-caching-hash-algo"},
    {"min_retrieve_tokens", kNone,
     "see min_tokens in kv_connector_extra_config, which skips short prompts"},
    {"priority_limit", kNone,
     "one request opts out with kv_transfer_params {\"larder\": \"off\"}, or stores chunks that "
     "leave first with {\"larder\": {\"priority\": \"low\"}}"},
    {"hit_miss_ratio", kNone, "the engine always loads hits"},
    {"blocking_timeout_secs", kAlways, kDeadlines},
    {"lookup_timeout_ms", kAlways, "a look-up reads shared memory without a wait"},
    {"pin_timeout_sec", kAlways, kPins},
    {"pin_check_interval_sec", kAlways, kPins},
    {"error_handling", kAlways, "the engine always recomputes a failed load"},
    {"external_lookup_client", kNone, "engines look up in shared memory"},
    {"enable_scheduler_bypass_lookup", kAlways, "the scheduler looks up in shared memory itself"},
    {"lookup_server_worker_ids", kAlways, "the scheduler looks up in shared memory itself"},
    {"use_gpu_connector_v3", kAlways, "Larder has one connector"},
    {"enable_kv_events", kAlways,
     "the connector publishes KV events if vLLM has --kv-events-config"},
    {"enable_hidden_state_cache", kNone, kHidden},
    {"max_hidden_state_cpu_size", kNone, kHidden},
    {"hidden_state_layers", kNone, kHidden},
    {"hidden_states_retrieve_mode", kNone, kHidden},
    {"py_enable_gc", kAlways, "larderd is no Python program"},
    {"use_experimental", kAlways, "Larder has one version of each feature"},
    {"track_usage", kAlways, "Larder sends no usage reports"},
    {"disable_banner", kAlways, "Larder prints no banner"},
    {"log_level", kConverted, ""},
    // Blending.
    {"enable_blending", kNone, kText},
    {"blend_recompute_ratio", kNone, kText},
    {"blend_recompute_ratios", kNone, kText},
    {"blend_thresholds", kNone, kText},
    {"blend_check_layers", kNone, kText},
    {"blend_min_tokens", kNone, kText},
    {"blend_special_str", kNone, kText},
    // Other machines, other engines.
    {"enable_p2p", kConverted, ""},
    {"p2p_host", kAlways, kPeerPort},
    {"p2p_init_ports", kAlways, kPeerPort},
    {"p2p_lookup_ports", kAlways, kPeerPort},
    {"peer_init_ports", kAlways, kPeerPort},
    {"peer_lookup_ports", kAlways, kPeerPort},
    {"lookup_url", kAlways, kPeerPort},
    {"distributed_url", kAlways, kPeerPort},
    {"transfer_channel", kNone, kPeerTransport},
    {"mp_host", kAlways, kSocket},
    {"mp_port", kAlways, kSocket},
    // An error in lmcache.cc: a transport between engines has no counterpart in a cache.
    {"enable_pd", kConverted, ""},
    {"enable_xpyd", kConverted, ""},
    {"enable_nixl", kConverted, ""},
    {"pd_role", kNone, kDisaggregated},
    {"pd_buffer_size", kNone, kDisaggregated},
    {"pd_buffer_device", kNone, kDisaggregated},
    {"pd_peer_host", kNone, kDisaggregated},
    {"pd_peer_init_port", kNone, kDisaggregated},
    {"pd_peer_alloc_port", kNone, kDisaggregated},
    {"pd_peer_query_port", kNone, kDisaggregated},
    {"pd_proxy_host", kNone, kDisaggregated},
    {"pd_proxy_port", kNone, kDisaggregated},
    {"pd_allocation_timeout_sec", kNone, kDisaggregated},
    {"pd_shutdown_timeout_sec", kNone, kDisaggregated},
    {"pd_condition_poll_interval_sec", kNone, kDisaggregated},
    {"pd_max_prefill_len", kNone, kDisaggregated},
    {"pd_backend_mode", kNone, kDisaggregated},
    {"pd_skip_proxy_notification", kNone, kDisaggregated},
    {"pd_bidirectional", kNone, kDisaggregated},
    {"nixl_role", kNone, kDisaggregated},
    {"nixl_backends", kNone, kDisaggregated},
    {"nixl_buffer_size", kNone, kDisaggregated},
    {"nixl_buffer_device", kNone, kDisaggregated},
    {"nixl_peer_host", kNone, kDisaggregated},
    {"nixl_peer_port", kNone, kDisaggregated},
    {"nixl_peer_init_port", kNone, kDisaggregated},
    {"nixl_peer_alloc_port", kNone, kDisaggregated},
    {"nixl_proxy_host", kNone, kDisaggregated},
    {"nixl_proxy_port", kNone, kDisaggregated},
    {"nixl_receiver_host", kNone, kDisaggregated},
    {"nixl_receiver_port", kNone, kDisaggregated},
    {"nixl_enable_gc", kNone, kDisaggregated},
    // Management.
    {"enable_controller", kNone, kController},
    {"lmcache_instance_id", kNone, kController},
    {"controller_url", kNone, kController},
    {"controller_pull_url", kNone, kController},
    {"controller_reply_url", kNone, kController},
    {"lmcache_worker_port", kNone, kController},
    {"lmcache_worker_ports", kNone, kController},
    {"lmcache_worker_ids", kNone, kController},
    {"lmcache_worker_heartbeat_delay_time", kNone, kController},
    {"lmcache_worker_heartbeat_time", kNone, kController},
    {"internal_api_server_enabled", kAlways, kHttp},
    {"internal_api_server_host", kAlways, kHttp},
    {"internal_api_server_port_start", kAlways, kHttp},
    {"internal_api_server_include_index_list", kAlways, kHttp},
    {"internal_api_server_socket_path_prefix", kAlways, kHttp},
    {"script_allowed_imports", kNone, kScripts},
    {"run_script_api_enabled", kNone, kScripts},
    {"plugin_locations", kNone, kPlugin},
    {"runtime_plugin_locations", kNone, kPlugin},
    {"external_backends", kNone, kPlugin},
    {"storage_plugins", kNone, kPlugin},
    {"remote_storage_plugins", kConverted, ""},
    {"remote_config_url", kNone, "larderd reads its configuration from a file and variables only"},
    {"app_id", kNone, "larderd reads its configuration from a file and variables only"},
    {"enable_chunk_statistics", kAlways, kStatistics},
    {"chunk_statistics_auto_start_statistics", kAlways, kStatistics},
    {"chunk_statistics_auto_exit_timeout_hours", kAlways, kStatistics},
    {"chunk_statistics_auto_exit_target_unique_chunks", kAlways, kStatistics},
    {"chunk_statistics_strategy", kAlways, kStatistics},
    // Keys of extra_config in LMCache's documentation.
    // The map itself, if it is not a map. Its keys follow with a dot.
    {"extra_config", kNone, "Larder knows no key of the value"},
    {"extra_config.use_odirect", kAlways,
     "the disk tier bypasses the page cache if the file system allows direct I/O"},
    {"extra_config.remote_storage_plugin.redis.redis_url", kConverted, ""},
    {"extra_config.redis_url", kConverted, ""},
    {"extra_config.redis_username", kConverted, ""},
    {"extra_config.redis_password", kConverted, ""},
    {"extra_config.username", kConverted, ""},
    {"extra_config.password", kConverted, ""},
    {"extra_config.save_chunk_meta", kAlways, "a record beside each chunk describes the chunk"},
    {"extra_config.resp_num_threads", kAlways, kOneThread},
    {"extra_config.valkey_username", kConverted, ""},
    {"extra_config.valkey_password", kConverted, ""},
    {"extra_config.valkey_database", kConverted, ""},
    {"extra_config.valkey_mode", kConverted, ""},
    {"extra_config.valkey_num_workers", kAlways, kOneThread},
    {"extra_config.tls_enable", kConverted, ""},
    {"extra_config.gpu_to_numa_mapping", kNone,
     "all engines share one memory: memory.numa takes auto or one node's number"},
    // Options of `lmcache server` without a key in the file.
    // lmcache_server.cc takes an adapter apart and names each field.
    {"--l2-adapter", kConverted, ""},
    {"--l2-adapter.base_path", kConverted, ""},
    {"--l2-adapter.ttl_seconds", kConverted, ""},
    {"--l2-adapter.use_odirect", kAlways,
     "the disk tier bypasses the page cache if the file system allows direct I/O"},
    {"--l2-adapter.relative_tmp_dir", kAlways, "the disk tier is one file, written in place"},
    {"--l2-adapter.read_ahead_size", kAlways, kDiskQueue},
    {"--l2-adapter.read_io_depth", kAlways, kDiskQueue},
    {"--l2-adapter.read_max_bytes_in_flight", kAlways, kDiskQueue},
    {"--l2-adapter.num_workers", kAlways,
     "one thread of larderd does all reads and writes of a tier"},
    {"--l2-adapter.checksum", kAlways, "the engine verifies every chunk that it loads"},
    {"--l2-adapter.request_timeout", kAlways, kDeadlines},
    {"--l2-adapter.connection_timeout", kAlways, kDeadlines},
    {"--l2-adapter.key_prefix", kNone, "Larder's keys have another prefix: backend.prefix"},
    {"--l2-adapter.max_capacity_gb", kNone, "set maxmemory and an eviction policy at the server"},
    {"--l2-adapter.eviction", kAlways, "a full tier evicts by itself"},
    {"--l2-adapter.serde", kNone,
     "Larder stores the KV of the engine unchanged, without lossy compression"},
    {"--l2-adapter.affinity_tag", kNone, kOneMemory},
    // The HTTP port of LMCache's server becomes http.listen.
    {"--http-host", kConverted, ""},
    {"--http-port", kConverted, ""},
    {"--shm-name", kConverted, ""},
    {"--instance-id", kConverted, ""},
    {"--host", kAlways, kSocket},
    {"--port", kAlways, kSocket},
    {"--transport", kAlways, kSocket},
    {"--grpc-server-workers", kAlways, kSocket},
    {"--max-workers", kAlways, kOneLoop},
    {"--max-gpu-workers", kAlways, kOneLoop},
    {"--max-cpu-workers", kAlways, kOneLoop},
    {"--hash-algorithm", kAlways,
     "the keys are vLLM's own block hashes: see its --prefix-caching-hash-algo"},
    {"--engine-type", kNone, kText, "default"},
    {"--enable-segmented-prefix", kNone, kText},
    {"--enable-dedup-content", kNone, kText},
    {"--separate-object-groups", kAlways, kOwnGroups},
    {"--no-separate-object-groups", kAlways, kOwnGroups},
    {"--null-block-id", kAlways, "the connector knows vLLM's null block"},
    {"--supported-transfer-mode", kAlways, kSharedMemory},
    {"--isolated-ipc", kAlways, kSharedMemory},
    {"--no-isolated-ipc", kAlways, kSharedMemory},
    {"--worker-reap-timeout-seconds", kAlways, kDeaths},
    {"--worker-registration-grace-seconds", kAlways, kDeaths},
    {"--runtime-plugin-locations", kNone, kPlugin},
    {"--runtime-plugin-config", kNone, kPlugin},
    {"--script-allowed-imports", kNone, kScripts},
    {"--run-script-api-enabled", kNone, kScripts},
    {"--lookup-hash-log-dir", kNone, kRecorded},
    {"--lookup-hash-log-rotation-interval", kNone, kRecorded},
    {"--lookup-hash-log-rotation-max-size", kNone, kRecorded},
    {"--lookup-hash-log-max-files", kNone, kRecorded},
    {"--p2p-advertise-url", kConverted, ""},
    {"--p2p-listen-url", kAlways, kPeerPort},
    {"--p2p-lookup-timeout", kAlways, kDeadlines},
    {"--p2p-load-timeout", kAlways, kDeadlines},
    {"--p2p-transfer-engine", kNone, kPeerTransport},
    {"--coordinator-url", kNone, kController},
    {"--l1-manager", kNone, kOneMemory},
    {"--l1-devdax-path", kNone, kOneMemory},
    {"--l1-use-lazy", kAlways, kLazy},
    {"--no-l1-use-lazy", kAlways, kLazy},
    {"--l1-init-size-gb", kAlways, kLazy},
    {"--l1-align-bytes", kAlways, "slots lie on whole pages, as direct I/O requires"},
    {"--no-l1-use-hugepages", kAlways, "memory.hugepages is none unless it is set"},
    {"--l1-write-ttl-seconds", kAlways, "a grant ends with the engine"},
    {"--l1-read-ttl-seconds", kAlways, kPins},
    {"--gds-l1-path", kNone, kGpuDirect},
    {"--gds-l1-backend", kNone, kGpuDirect},
    {"--gds-l1-use-direct-io", kNone, kGpuDirect},
    {"--no-gds-l1-use-direct-io", kNone, kGpuDirect},
    {"--eviction-policy", kNone, "larderd always evicts the least recently used chunk first",
     "LRU"},
    {"--eviction-trigger-watermark", kAlways, kPlace},
    {"--eviction-ratio", kAlways, kPlace},
    {"--l2-store-policy", kNone, "chunks written to a lower tier also stay in memory", "default"},
    {"--l2-prefetch-policy", kAlways, "promoted chunks stay in memory until eviction"},
    {"--l2-prefetch-max-in-flight", kAlways, kDiskQueue},
    {"--periodic-notifier-interval-ms", kAlways, "larderd waits for its tiers without polling"},
    {"--disable-observability", kAlways, kPages},
    {"--disable-metrics", kAlways, kPages},
    {"--disable-grpc-metrics", kAlways, kPages},
    {"--disable-logging", kAlways, kPages},
    {"--event-bus-queue-size", kAlways, kPages},
    {"--prometheus-port", kAlways, kPages},
    {"--metrics-sample-rate", kAlways, kPages},
    {"--enable-tracing", kNone, kNoTraces},
    {"--otlp-endpoint", kNone, kNoTraces},
    {"--trace-level", kNone, kNoTraces},
    {"--trace-output", kNone, kNoTraces},
    {"--enable-extra-logging", kAlways, kStatistics},
    {"--extra-logging-interval", kAlways, kStatistics},
};

// The Levenshtein distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const LmcacheKey> lmcache_keys() {
  return kKeys;
}

const LmcacheKey* find_lmcache_key(std::string_view key) {
  const auto* found = std::ranges::find(kKeys, key, &LmcacheKey::key);
  return found == std::end(kKeys) ? nullptr : found;
}

std::string_view nearest_lmcache_key(std::string_view key) {
  constexpr std::size_t kLongestKey = 64;
  constexpr std::size_t kNear = 2;
  if (key.size() > kLongestKey) return "";
  const std::string meant = base::lower(key);
  const auto* nearest = std::ranges::min_element(
      kKeys, {}, [&meant](const LmcacheKey& known) { return distance(meant, known.key); });
  return distance(meant, nearest->key) <= kNear ? nearest->key : "";
}

}  // namespace larder::ctl
