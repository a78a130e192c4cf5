// Config: everything larderd can be told, in one struct, filled by one strict loader (loader.h).
//
// Order: defaults, then the YAML file, then LARDER_* environment variables; a later one wins. Sizes are bytes. Where a pool is
// named, load() makes `socket` and `memory.shm_name` follow it unless they are given. fields.cc has the allowed values.
#pragma once

#include <cstdint>
#include <string>

#include "sidecar/config/backend_url.h"

namespace larder::config {

enum class Hugepages { kNone, k2Mi, k1Gi, kPrefer2Mi };
enum class OnMismatch { kRefuse, kReplace };
enum class DiskWrite { kBack, kThrough };
enum class BackendWrite { kAll, kEvicted, kPopular };
enum class Transfer { kShim, kSidecar };

struct MemoryConfig {
  std::uint64_t size_bytes = 5ULL << 30;
  std::string shm_name = "larder";                    // files are DIRECTORY/shm_name.arena, .index.*, .lock.*
  std::string directory = "/dev/shm";                 // tmpfs; of the index and lock files, and of the arena on normal pages
  Hugepages hugepages = Hugepages::kNone;             // none | 2Mi | 1Gi | prefer
  std::string hugepage_directory = "/dev/hugepages";  // hugetlbfs, of pages of that size
  std::string numa = "none";                          // none | auto | the number of a node
  bool keep_on_exit = true;                           // what is cached stays in memory for the next start
  OnMismatch on_mismatch = OnMismatch::kRefuse;       // memory of an earlier larderd that this one cannot use: refuse | replace
};

struct DiskConfig {
  std::string path;                    // an existing directory on a local disk; "": no disk tier
  std::uint64_t size_bytes = 0;        // a hard cap on what is kept there
  DiskWrite write = DiskWrite::kBack;  // back: ahead of eviction from memory; through: at once
  std::uint32_t ttl_s = 0;             // what was stored longer ago is not found; 0: no limit
  std::uint32_t admit_after = 1;       // a chunk is written from its n-th sight on
};

struct BackendConfig : BackendUrl {  // what `url` says
  std::string url;                   // as given, never with a password; "": no backend

  std::string password_file;                 // read at each connect; "": no password
  std::string sentinel_user;                 // the Sentinels' own; "": their default user
  std::string sentinel_password_file;        // read at each connect; "": they want no password
  std::string ca_file, cert_file, key_file;  // PEM, read at each connect; "": those of the system, no client certificate
  std::string server_name;                   // whom the certificate must name; "": the host
  bool read_replicas = false;                // of a Cluster: parts of chunks are also read from replicas
  std::string prefix;                        // of all keys; load() makes it follow the pool
  std::uint32_t ttl_s = 0;                   // what was put longer ago is gone; 0: the server alone decides
  BackendWrite write = BackendWrite::kAll;   // what is written: all | evicted | popular
  std::uint64_t write_bytes_per_s = 0;       // budget of what is written; 0: none
};

struct HttpConfig {
  std::string listen =
      "127.0.0.1:9464";                 // metrics and health; "" for none. Admin verbs only answer on loopback and on the socket
  std::vector<std::string> hosts = {};  // further names that requests on `listen` may have as their Host
  std::string admin_socket = "";        // load() sets it beside `socket`, with .admin in place of .sock. "" : none
};

struct Config {
  std::string pool = "larder";
  std::string socket = "/run/larder/larder.sock";
  std::uint32_t socket_mode = 0660;
  std::string log_level = "info";       // debug | info | warning | error
  Transfer transfer = Transfer::kShim;  // who copies GPU pages: the engine's process, or larderd itself over CUDA IPC
  MemoryConfig memory;
  DiskConfig disk;
  BackendConfig backend;
  HttpConfig http;
};

}  // namespace larder::config
