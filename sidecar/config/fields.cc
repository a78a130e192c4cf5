#include "sidecar/config/fields.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "sidecar/config/section_fields.h"
#include "sidecar/config/values.h"

namespace larder::config {
namespace {

// A smaller arena holds no chunk of a real model.
constexpr std::uint64_t kLeastMemory = 1ULL << 20;
constexpr std::uint64_t kMostMemory = 16ULL << 40;  // an index entry counts 4 KiB pages in 32 bits
constexpr std::uint64_t kMostDisk = 64ULL << 40;
constexpr std::uint32_t kMostSights = 15;  // the largest value of a counter of the admission filter

Status set_memory_size(std::string_view text, Config& config) {
  const Result<std::uint64_t> bytes = parse_size(text);
  if (!bytes.ok()) return bytes.status();
  if (*bytes < kLeastMemory || *bytes > kMostMemory)
    return {Code::kOutOfRange,
            "is out of range: " + print_size(kLeastMemory) + " to " + print_size(kMostMemory)};
  config.memory.size_bytes = *bytes;
  return {};
}

struct HugepagesName {
  std::string_view name;
  Hugepages value;
};
// The first form of each value is the form that is printed.
constexpr std::array<HugepagesName, 6> kHugepages{{{"none", Hugepages::kNone},
                                                   {"2Mi", Hugepages::k2Mi},
                                                   {"2MiB", Hugepages::k2Mi},
                                                   {"1Gi", Hugepages::k1Gi},
                                                   {"1GiB", Hugepages::k1Gi},
                                                   {"prefer", Hugepages::kPrefer2Mi}}};

Status set_hugepages(std::string_view text, Config& config) {
  for (const HugepagesName& mode : kHugepages) {
    if (mode.name != text) continue;
    config.memory.hugepages = mode.value;
    return {};
  }
  // Lists only the printed forms: 2MiB and 1GiB are accepted, too, and would double the text.
  return {Code::kInvalidArgument, "is not one of: none, 2Mi, 1Gi, prefer"};
}

std::string print_hugepages(const Config& config) {
  // The first row of a value is its printed form, so that print() and parse() agree.
  for (const HugepagesName& mode : kHugepages)
    if (mode.value == config.memory.hugepages) return std::string(mode.name);
  return "?";
}

// The start checks whether the machine has the node.
Status set_numa(std::string_view text, Config& config) {
  // At most four digits: the kernel knows 1,024 nodes at most. The check of the machine follows at
  // the start, since --check-config may run elsewhere.
  const bool number = !text.empty() && text.size() <= 4 &&
                      text.find_first_not_of("0123456789") == std::string_view::npos;
  if (text != "none" && text != "auto" && !number)
    return {Code::kInvalidArgument, "is not one of: none, auto, the number of a node"};
  config.memory.numa = text;
  return {};
}

// Only true and false: YAML's yes, on and 1 would be further ways to write the same.
Status set_keep_on_exit(std::string_view text, Config& config) {
  if (text != "true" && text != "false")
    return {Code::kInvalidArgument, "is not one of: true, false"};
  config.memory.keep_on_exit = text == "true";
  return {};
}

// The other half of the memory is left for pins, and for chunks that come and go.
constexpr std::uint32_t kMostKeepPercent = 50;

Status set_keep_percent(std::string_view text, Config& config) {
  std::uint32_t percent = 0;
  if (!parse_number(text, percent) || percent > kMostKeepPercent)
    return {Code::kOutOfRange, "is out of range: 0 to " + std::to_string(kMostKeepPercent)};
  config.memory.keep_percent = percent;
  return {};
}

Status set_on_mismatch(std::string_view text, Config& config) {
  if (text != "refuse" && text != "replace")
    return {Code::kInvalidArgument, "is not one of: refuse, replace"};
  config.memory.on_mismatch = text == "refuse" ? OnMismatch::kRefuse : OnMismatch::kReplace;
  return {};
}

Status set_disk_path(std::string_view text, Config& config) {
  return set_path(text, config.disk.path);
}

// The tier checks the least size at the start, because the least size depends on the directory.
Status set_disk_size(std::string_view text, Config& config) {
  const Result<std::uint64_t> bytes = parse_size(text);
  if (!bytes.ok()) return bytes.status();
  if (*bytes > kMostDisk)
    return {Code::kOutOfRange, "is out of range: at most " + print_size(kMostDisk)};
  config.disk.size_bytes = *bytes;
  return {};
}

Status set_disk_write(std::string_view text, Config& config) {
  if (text != "back" && text != "through")
    return {Code::kInvalidArgument, "is not one of: back, through"};
  config.disk.write = text == "back" ? DiskWrite::kBack : DiskWrite::kThrough;
  return {};
}

Status set_disk_ttl(std::string_view text, Config& config) {
  const Result<std::uint32_t> seconds = parse_duration_s(text);
  if (!seconds.ok()) return seconds.status();
  config.disk.ttl_s = *seconds;
  return {};
}

Status set_admit_after(std::string_view text, Config& config) {
  std::uint32_t sights = 0;
  if (!parse_number(text, sights) || sights < 1 || sights > kMostSights)
    return {Code::kOutOfRange, "is out of range: 1 to " + std::to_string(kMostSights)};
  config.disk.admit_after = sights;
  return {};
}

Status set_transfer(std::string_view text, Config& config) {
  if (text != "shim" && text != "sidecar")
    return {Code::kInvalidArgument, "is not one of: shim, sidecar"};
  config.transfer = text == "sidecar" ? Transfer::kSidecar : Transfer::kShim;
  return {};
}

Status set_log_level(std::string_view text, Config& config) {
  for (const std::string_view level : {"debug", "info", "warning", "error"})
    if (level == text) {
      config.log_level = text;
      return {};
    }
  return {Code::kInvalidArgument, "is not one of: debug, info, warning, error"};
}

Status set_socket_mode(std::string_view text, Config& config) {
  const Result<std::uint32_t> mode = parse_mode(text);
  if (!mode.ok()) return mode.status();
  config.socket_mode = *mode;
  return {};
}

Status set_listen(std::string_view text, Config& config) {
  // "" switches the port off. An absent key keeps the default.
  if (!text.empty())
    if (const Result<ListenAddress> address = parse_listen(text); !address.ok())
      return Status(address.status().code(), address.status().text() + ", or \"\" for none");
  config.http.listen = text;
  return {};
}

Status set_hosts(std::string_view text, Config& config) {
  Result<std::vector<std::string>> names = parse_hosts(text);
  if (!names.ok()) return names.status();
  config.http.hosts = *std::move(names);
  return {};
}

// The table of all keys. The loader, --help, --check-config, docs/reference/configuration.md and
// the environment variables come from these rows: a new key of larderd is one row here. The page
// has the same order.
// The order of the rows is the order of the reference page, of --help and of --check-config. Rows
// of one section stand together, as YamlWriter writes a section once.
constexpr std::array<Field, 47> kFields{{
    // `pool` first: other defaults follow from the name (follow_pool() in loader.cc).
    {"pool",
     "name of this pool of sidecars; if not set, `socket` and `memory.shm_name` contain the name",
     [](std::string_view text, Config& c) { return set(text, c.pool, check_name); },
     [](const Config& c) { return c.pool; }},
    {"socket", "Unix socket on which engines attach",
     [](std::string_view text, Config& c) { return set(text, c.socket, check_socket_path); },
     [](const Config& c) { return c.socket; }},
    {"socket_mode", "file mode of both sockets, octal", set_socket_mode,
     [](const Config& c) { return print_mode(c.socket_mode); }},
    {"transfer",
     "the process that copies GPU pages: shim (the engine's process) or sidecar (larderd, over "
     "CUDA IPC)",
     set_transfer,
     [](const Config& c) {
       return std::string(c.transfer == Transfer::kSidecar ? "sidecar" : "shim");
     }},
    {"log_level", "debug, info, warning or error", set_log_level,
     [](const Config& c) { return c.log_level; }},
    {"memory.size", "bytes of KV kept in memory, 1MiB to 16TiB; 5GiB, 5Gi and 5G are the same",
     set_memory_size, [](const Config& c) { return print_size(c.memory.size_bytes); }},
    {"memory.shm_name",
     "the shared-memory files are DIRECTORY/NAME.arena, NAME.index.*, NAME.lock.*",
     [](std::string_view text, Config& c) { return set(text, c.memory.shm_name, check_name); },
     [](const Config& c) { return c.memory.shm_name; }},
    {"memory.directory", "a tmpfs for index, locks, and the arena on normal pages",
     [](std::string_view text, Config& c) {
       return set(text, c.memory.directory, check_absolute_path);
     },
     [](const Config& c) { return c.memory.directory; }},
    {"memory.hugepages",
     "none; 2Mi or 1Gi: start only on huge pages of this size; prefer: 2Mi, or normal pages if the "
     "machine has too few huge pages",
     set_hugepages, print_hugepages},
    {"memory.hugepage_directory",
     "a hugetlbfs mount with pages of the size in `memory.hugepages`, for the arena on huge pages",
     [](std::string_view text, Config& c) {
       return set(text, c.memory.hugepage_directory, check_absolute_path);
     },
     [](const Config& c) { return c.memory.hugepage_directory; }},
    {"memory.numa",
     "the NUMA node of the arena's memory. none: no choice; a number: this node only; auto: the "
     "node of larderd's CPUs, or interleaved over all nodes if larderd may run on several",
     set_numa, [](const Config& c) { return c.memory.numa; }},
    {"memory.keep_percent",
     "the most memory, in percent, of chunks that stay by the hint `keep` of a request, 0 to 50; "
     "0: the hint has no effect",
     set_keep_percent, [](const Config& c) { return std::to_string(c.memory.keep_percent); }},
    {"memory.keep_on_exit",
     "true: a stopped larderd leaves the memory to the next larderd, which starts warm (`larderd "
     "--free-memory` frees the memory); false: larderd frees the memory at the stop",
     set_keep_on_exit,
     [](const Config& c) { return std::string(c.memory.keep_on_exit ? "true" : "false"); }},
    {"memory.on_mismatch",
     "action for memory of an earlier larderd with another size, format version or owner. refuse: "
     "report the mismatch and do not "
     "start; replace: start cold with new memory (not while engines use memory of another size)",
     set_on_mismatch,
     [](const Config& c) {
       return std::string(c.memory.on_mismatch == OnMismatch::kRefuse ? "refuse" : "replace");
     }},
    // The disk tier exists with both path and size; check_disk() in loader.cc refuses one alone.
    {"disk.path",
     "an existing directory on a local disk, in which larderd creates one folder; not set: no disk "
     "tier. The disk keeps chunks that memory evicts, also over a restart of the machine",
     set_disk_path, [](const Config& c) { return c.disk.path; }},
    {"disk.size", "the size of the disk tier, reserved at the start", set_disk_size,
     [](const Config& c) { return print_size(c.disk.size_bytes); }},
    {"disk.write",
     "back: write a chunk shortly before memory evicts the chunk, and at a stop; through: write a "
     "chunk right after the store (more wear, less loss if the machine fails)",
     set_disk_write,
     [](const Config& c) {
       return std::string(c.disk.write == DiskWrite::kBack ? "back" : "through");
     }},
    {"disk.ttl",
     "the longest time after the store in which the disk finds or accepts a chunk: 90s, 15m, 12h, "
     "30d; 0: no limit. Memory may keep the chunk longer",
     set_disk_ttl, [](const Config& c) { return print_duration_s(c.disk.ttl_s); }},
    {"disk.admit_after",
     "1 to 15: write a chunk to the disk from this number of stores and uses on; more than 1 saves "
     "the disk from chunks that are used once",
     set_admit_after, [](const Config& c) { return std::to_string(c.disk.admit_after); }},
    // The last `false`: an error must not repeat the URL, which may hold a password by mistake.
    {"backend.url",
     "a Redis or Valkey that several larderd share: redis://[user@]host[:port][/database], with "
     "Sentinels redis-sentinel://[user@]host[:port],.../MASTER[/database], a Cluster "
     "redis-cluster://[user@]host[:port],...; rediss...:// for TLS; unix:///path. Or a service "
     "behind a "
     "plug-in: mooncake://host:port, infinistore://host:port, plugin://...; not set: no "
     "backend. Never write a password into the URL",
     set_backend_url, [](const Config& c) { return c.backend.url; }, false},
    // The file is read at each connect. A rotated password therefore needs no restart.
    {"backend.password_file",
     "a file with the password only; larderd reads the file at each connect, so you can rotate the "
     "password",
     [](std::string_view text, Config& c) { return set_path(text, c.backend.password_file); },
     [](const Config& c) { return c.backend.password_file; }},
    {"backend.sentinel_user",
     "with redis-sentinel://: the user at the Sentinels, since Sentinels and servers have separate "
     "users; not set: the default user",
     set_sentinel_user, [](const Config& c) { return c.backend.sentinel_user; }},
    {"backend.sentinel_password_file",
     "with redis-sentinel://: a file with the password of the Sentinels; not set: no password",
     [](std::string_view text, Config& c) {
       return set_path(text, c.backend.sentinel_password_file);
     },
     [](const Config& c) { return c.backend.sentinel_password_file; }},
    {"backend.ca_file",
     "PEM, with rediss://: the only authorities that may sign the server's certificate; not set: "
     "the authorities of the system",
     [](std::string_view text, Config& c) { return set_path(text, c.backend.ca_file); },
     [](const Config& c) { return c.backend.ca_file; }},
    {"backend.cert_file",
     "PEM, with rediss://: the certificate of larderd, for a server that requires client "
     "certificates; needs key_file",
     [](std::string_view text, Config& c) { return set_path(text, c.backend.cert_file); },
     [](const Config& c) { return c.backend.cert_file; }},
    {"backend.key_file", "PEM, without a passphrase: the key of cert_file",
     [](std::string_view text, Config& c) { return set_path(text, c.backend.key_file); },
     [](const Config& c) { return c.backend.key_file; }},
    {"backend.server_name",
     "with rediss://: the name that the server's certificate must contain; not set: the host of "
     "the URL",
     set_server_name, [](const Config& c) { return c.backend.server_name; }},
    {"backend.read_replicas",
     "with redis-cluster://. true: read half of the chunks from replicas, if the Cluster has "
     "replicas; the user then needs READONLY; false: read from masters only",
     set_read_replicas,
     [](const Config& c) { return std::string(c.backend.read_replicas ? "true" : "false"); }},
    {"backend.prefix",
     "the prefix of all keys in the backend. All larderd with one prefix share chunks, and "
     "`larderctl clear` removes all keys "
     "with the prefix; not set: larder, or larder-POOL for a pool with another name",
     set_prefix, [](const Config& c) { return c.backend.prefix; }},
    {"backend.ttl",
     "the lifetime of a chunk in the backend after the write: 90s, 15m, 12h, 30d; 0: no limit, "
     "only the server evicts",
     set_backend_ttl, [](const Config& c) { return print_duration_s(c.backend.ttl_s); }},
    {"backend.write",
     "all: write each chunk soon after the store; evicted: shortly before memory evicts the chunk, "
     "and at a stop; popular: from the second store or use of the chunk on",
     set_backend_write, print_backend_write},
    {"backend.write_rate",
     "the most bytes a second that larderd writes to the backend, 1MiB to 1TiB; 0: no limit",
     set_write_rate, [](const Config& c) { return print_size(c.backend.write_bytes_per_s); }},
    {"backend.plugin_socket",
     "with mooncake://, infinistore:// or plugin://: the socket at which larderd listens for the "
     "plug-in; not set: the path of socket with .plugin in place of .sock",
     [](std::string_view text, Config& c) {
       return text.empty() ? set_path(text, c.backend.plugin_socket)
                           : set(text, c.backend.plugin_socket, check_socket_path);
     },
     [](const Config& c) { return c.backend.plugin_socket; }},
    {"backend.plugin_region",
     "with a plug-in: the memory that larderd shares with the plug-in, 32MiB to 64GiB; half of the "
     "region bounds the bytes on their way at once",
     set_plugin_region, [](const Config& c) { return print_size(c.backend.plugin_region_bytes); }},
    {"backend.plugin_patience",
     "with a plug-in: larderd ends the connection of a plug-in that answers no call for so long, "
     "1s "
     "to 10m",
     set_plugin_patience,
     [](const Config& c) { return print_duration_s(c.backend.plugin_patience_s); }},
    // TLS for peers is the default: check_peers() wants four files, or the explicit word
    // `plaintext`.
    {"peers.listen",
     "HOST:PORT at which larderd serves its chunks to the other larderd of the pool, e.g. "
     "0.0.0.0:9466; not set: larderd serves no peer",
     set_peers_listen, [](const Config& c) { return c.peers.listen; }},
    {"peers.members",
     "the larderd to ask for chunks: host:port,host:port,... or dns:NAME:PORT, where each address "
     "of NAME (a headless Service) is one larderd; larderd itself may be among them; not set: "
     "larderd asks no peer",
     set_peers_members, [](const Config& c) { return c.peers.members; }},
    {"peers.fanout", "1 to 16: the most peers that larderd asks for one prompt", set_peers_fanout,
     [](const Config& c) { return std::to_string(c.peers.fanout); }},
    {"peers.serve_rate",
     "the most bytes a second that larderd sends to peers, 1MiB to 1TiB; 0: no limit",
     set_serve_rate, [](const Config& c) { return print_size(c.peers.serve_bytes_per_s); }},
    {"peers.plaintext",
     "false: TLS with certificates of both sides, from the files below; true: no encryption and no "
     "certificates. Everybody who reaches the port can then read the cache",
     set_peers_plaintext,
     [](const Config& c) { return std::string(c.peers.plaintext ? "true" : "false"); }},
    {"peers.ca_file", "PEM: the only authorities that may sign certificates of peers",
     [](std::string_view text, Config& c) { return set_path(text, c.peers.ca_file); },
     [](const Config& c) { return c.peers.ca_file; }},
    {"peers.cert_file",
     "PEM: the certificate of larderd for peers; larderd reads the file at each connect, so you "
     "can rotate it",
     [](std::string_view text, Config& c) { return set_path(text, c.peers.cert_file); },
     [](const Config& c) { return c.peers.cert_file; }},
    {"peers.key_file", "PEM, without a passphrase: the key of cert_file",
     [](std::string_view text, Config& c) { return set_path(text, c.peers.key_file); },
     [](const Config& c) { return c.peers.key_file; }},
    // One name for all peers, since pods come and go with their addresses.
    {"peers.server_name",
     "the name that the certificate of every peer must contain, e.g. POOL.NAMESPACE.larder",
     set_peers_server_name, [](const Config& c) { return c.peers.server_name; }},
    // Loopback by default: the admin verbs can drop the cache, and have no password.
    {"http.listen",
     "HOST:PORT of metrics, health and status; \"\": no port; on loopback, the port also serves "
     "the admin verbs",
     set_listen, [](const Config& c) { return c.http.listen; }},
    {"http.hosts",
     "further Host names for requests on http.listen, such as node1.example or *.gpu.example. "
     "Always allowed: addresses, localhost, the host of http.listen and, if http.listen is not on "
     "loopback, the machine's name and *.svc. larderd refuses another Host with 421",
     set_hosts, [](const Config& c) { return print_hosts(c.http.hosts); }},
    // Its folder and mode are those of `socket`: who may attach engines may also drop chunks.
    {"http.admin_socket",
     "Unix socket for larderctl; not set: the path of `socket` with .admin instead of .sock",
     [](std::string_view text, Config& c) {
       return set(text, c.http.admin_socket, check_socket_path);
     },
     [](const Config& c) { return c.http.admin_socket; }},
}};

}  // namespace

std::span<const Field> fields() {
  return kFields;
}

// A linear search: the table is small, and each key is looked up once at the start.
const Field* find_field(std::string_view key) {
  for (const Field& field : kFields)
    if (field.key == key) return &field;
  return nullptr;
}

// "memory.shm_name" gives LARDER_MEMORY_SHM_NAME.
std::string environment_name(const Field& field) {
  std::string name = "LARDER_";
  for (const char c : field.key)
    name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace larder::config
