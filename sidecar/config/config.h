// Config: the whole configuration of larderd in one struct, filled by one strict loader (loader.h).
//
// Order: defaults, then the YAML file, then LARDER_* environment variables; the last one wins.
// Sizes are bytes. load() derives `socket` and `memory.shm_name` from a named pool unless the user
// sets these keys. fields.cc has the allowed values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sidecar/config/backend_url.h"

namespace larder::config {

enum class Hugepages { kNone, k2Mi, k1Gi, kPrefer2Mi };
enum class OnMismatch { kRefuse, kReplace };
enum class DiskWrite { kBack, kThrough };
enum class BackendWrite { kAll, kEvicted, kPopular };
enum class Transfer { kShim, kSidecar };

struct MemoryConfig {
  std::uint64_t size_bytes = 5ULL << 30;
  std::string shm_name = "larder";  // files are DIRECTORY/shm_name.arena, .index.*, .lock.*
  // Tmpfs; of the index and lock files, and of the arena on normal pages.
  std::string directory = "/dev/shm";
  Hugepages hugepages = Hugepages::kNone;             // none | 2Mi | 1Gi | prefer
  std::string hugepage_directory = "/dev/hugepages";  // a hugetlbfs with pages of that size
  std::string numa = "none";                          // none | auto | the number of a node
  std::uint32_t keep_percent = 25;  // the most memory of chunks with the hint "keep"; 0: none
  bool keep_on_exit = true;         // the cached chunks stay in memory for the next start
  // Unusable memory of an earlier larderd: refuse | replace.
  OnMismatch on_mismatch = OnMismatch::kRefuse;
};

struct DiskConfig {
  std::string path;                    // an existing directory on a local disk; "": no disk tier
  std::uint64_t size_bytes = 0;        // a hard cap on the file
  DiskWrite write = DiskWrite::kBack;  // back: before eviction from memory; through: at once
  std::uint32_t ttl_s = 0;             // older chunks are not found; 0: no limit
  std::uint32_t admit_after = 1;       // a chunk is written from the n-th sight on
};

struct BackendConfig : BackendUrl {  // the parts of `url`
  std::string url;                   // as given, never with a password; "": no backend

  std::string password_file;           // read at each connect; "": no password
  std::string sentinel_user;           // a user of the Sentinels; "": their default user
  std::string sentinel_password_file;  // read at each connect; "": no password
  std::string ca_file, cert_file,
      // PEM, read at each connect; "": system authorities, no client certificate
      key_file;
  std::string server_name;     // the name in the certificate of the server; "": the host
  bool read_replicas = false;  // Cluster only: parts of chunks are also read from replicas
  std::string prefix;          // of all keys; load() derives the default from the pool
  std::uint32_t ttl_s = 0;     // older chunks are gone; 0: the server alone decides
  BackendWrite write = BackendWrite::kAll;  // the chunks to write: all | evicted | popular
  std::uint64_t write_bytes_per_s = 0;      // budget of writes; 0: no budget

  // With a plug-in alone.
  std::string plugin_socket;  // load() sets the path of `socket` with .plugin in place of .sock
  std::uint64_t plugin_region_bytes = 256ULL << 20;  // shared with the plug-in
  std::uint32_t plugin_patience_s = 5;               // without any answer while a call is open
};

// Other larderd of the pool, straight from memory to memory.
struct PeersConfig {
  std::string listen;                        // as given; "": no peer is served
  std::string listen_host;                   // of `listen`; "": every address of the machine
  std::uint16_t listen_port = 0;             // of `listen`
  std::string members;                       // as given; "": no peer is asked
  std::vector<BackendHost> member_hosts;     // of `members`
  bool members_by_dns = false;               // each address of the one host is a member
  std::uint32_t fanout = 16;                 // the most peers that are asked
  std::uint64_t serve_bytes_per_s = 0;       // 0: no limit
  bool plaintext = false;                    // no TLS
  std::string ca_file, cert_file, key_file;  // PEM, read at each connect
  std::string server_name;                   // the name in the certificate of every peer
  bool enabled() const { return !listen.empty() || !members.empty(); }
};

struct HttpConfig {
  // Metrics and health; "" for none. Admin verbs only answer on loopback and on the socket.
  std::string listen = "127.0.0.1:9464";
  std::vector<std::string> hosts = {};  // further allowed values of Host in requests on `listen`
  // If empty, load() sets the path of `socket` with .admin in place of .sock.
  std::string admin_socket = "";
};

struct Config {
  std::string pool = "larder";
  std::string socket = "/run/larder/larder.sock";
  std::uint32_t socket_mode = 0660;
  std::string log_level = "info";  // debug | info | warning | error
  // The process that copies GPU pages: the engine, or larderd over CUDA IPC.
  Transfer transfer = Transfer::kShim;
  MemoryConfig memory;
  DiskConfig disk;
  BackendConfig backend;
  PeersConfig peers;
  HttpConfig http;
};

}  // namespace larder::config
