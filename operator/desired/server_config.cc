#include "operator/desired/backend_objects.h"

namespace larder::desired {
namespace {

// Memory beside the data: the program, and buffers of connections that load and store.
constexpr std::uint64_t kServerOwn = 64ULL << 20;

std::uint64_t max_memory_bytes(std::uint64_t container_bytes) {
  return container_bytes / 10 * 9 - kServerOwn;
}

}  // namespace

std::string server_config(const api::CacheBackend& backend) {
  const api::ManagedSpec& managed = *backend.spec.managed;
  return "# Written by larder-operator.\n"
         "port " +
         std::to_string(api::kServerPort) +
         "\n"
         // The NetworkPolicy limits the clients. In protected mode, a server without a password
         // would serve only its own machine.
         "protected-mode no\n"
         "dir /data\n"
         "maxmemory " +
         std::to_string(max_memory_bytes(managed.memory_bytes)) +
         "\n"
         "maxmemory-policy " +
         managed.policy +
         "\n"
         // No persistence: a snapshot stalls the server and may double its memory, and a log writes
         // each chunk to a disk.
         "save \"\"\n"
         "appendonly no\n"
         // Values are large, so a second thread frees them.
         "lazyfree-lazy-eviction yes\n"
         "lazyfree-lazy-expire yes\n"
         "lazyfree-lazy-server-del yes\n"
         "maxclients 10000\n"
         "tcp-keepalive 60\n";
}

}  // namespace larder::desired
