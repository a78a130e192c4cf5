#include "operator/desired/backend_objects.h"

namespace larder::desired {
namespace {

// Beside what it keeps: its program, and the buffers of connections that load and store.
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
         // The NetworkPolicy says who may connect. Without a password the server would serve its own machine alone.
         "protected-mode no\n"
         "dir /data\n"
         "maxmemory " +
         std::to_string(max_memory_bytes(managed.memory_bytes)) +
         "\n"
         "maxmemory-policy " +
         managed.policy +
         "\n"
         // A cache: a snapshot stalls it and may double its memory, a log writes each chunk to a disk too.
         "save \"\"\n"
         "appendonly no\n"
         // Values are large: they are freed by a thread beside the one that serves.
         "lazyfree-lazy-eviction yes\n"
         "lazyfree-lazy-expire yes\n"
         "lazyfree-lazy-server-del yes\n"
         "maxclients 10000\n"
         "tcp-keepalive 60\n";
}

}  // namespace larder::desired
