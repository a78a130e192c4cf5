// Config: everything larderd can be told, in one struct, filled by one strict loader (loader.h).
//
// Order: defaults, then the YAML file, then LARDER_* environment variables; a later one wins. Sizes are bytes. Where a pool is
// named, load() makes `socket` and `memory.shm_name` follow it unless they are given. fields.cc has the allowed values.
#pragma once

#include <cstdint>
#include <string>

namespace larder::config {

enum class Hugepages { kNone, k2Mi, k1Gi, kPrefer2Mi };
enum class OnMismatch { kRefuse, kReplace };
enum class DiskWrite { kBack, kThrough };

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

struct HttpConfig {
  std::string listen =
      "127.0.0.1:9464";           // metrics and health; "" for none. Admin verbs only answer on loopback and on the socket
  std::string admin_socket = "";  // load() sets it beside `socket`, with .admin in place of .sock. "" : none
};

struct Config {
  std::string pool = "larder";
  std::string socket = "/run/larder/larder.sock";
  std::uint32_t socket_mode = 0660;
  std::string log_level = "info";  // debug | info | warning | error
  MemoryConfig memory;
  DiskConfig disk;
  HttpConfig http;
};

}  // namespace larder::config
