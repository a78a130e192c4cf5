#include <array>

#include "operator/api/names.h"
#include "operator/desired/larderd.h"
#include "operator/desired/paths.h"
#include "operator/desired/peer_objects.h"

namespace larder::desired {
namespace {

using api::CacheBackend;
using api::CachePool;

constexpr std::string_view kBackendSection = "backend";

// Writes sections and keys in call order, with quoted values.
// Every value is quoted, so YAML reads no text as a number or a boolean.
class Yaml {
 public:
  void add(std::string_view key, const std::string& value) { line(0, key, value); }
  void section(std::string_view name) { text_ += std::string(name) + ":\n"; }
  void in(std::string_view key, const std::string& value) { line(2, key, value); }
  void in_if(std::string_view key, const std::string& value, std::string_view otherwise) {
    if (value != otherwise) in(key, value);
  }
  const std::string& text() const { return text_; }

 private:
  // Line ends cannot occur: api::SpecReader refuses control characters.
  void line(std::size_t indent, std::string_view key, const std::string& value) {
    text_ += std::string(indent, ' ') + std::string(key) + ": \"";
    for (const char c : value) {
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += c;
    }
    text_ += "\"\n";
  }

  std::string text_;
};

// Sizes in larderd's units, powers of 1024. Whole MiB, since "500M" of Kubernetes is no such unit.
std::string size_text(std::uint64_t bytes) {
  const std::uint64_t mib = bytes >> 20;
  if (mib % (1 << 20) == 0) return std::to_string(mib >> 20) + "TiB";
  return mib % 1024 == 0 ? std::to_string(mib >> 10) + "GiB" : std::to_string(mib) + "MiB";
}

// Rates in KiB if not whole MiB, so that 1.5Mi does not become 1 MiB.
std::string rate_text(std::uint64_t bytes) {
  return bytes % (1 << 20) == 0 ? size_text(bytes) : std::to_string(bytes >> 10) + "KiB";
}

std::string in_directory(std::string_view directory, std::string_view file) {
  return std::string(directory) + "/" + std::string(file);
}

void add_memory(const CachePool& pool, Yaml& yaml) {
  constexpr std::array<std::string_view, 3> kPages{"none", "2Mi", "1Gi"};
  const api::MemorySpec& memory = pool.spec.memory;
  yaml.section("memory");
  yaml.in("size", size_text(memory.size_bytes));
  yaml.in("shm_name", pool.name);
  yaml.in("directory", std::string(kMemoryPath));
  if (memory.hugepages != api::Hugepages::kNone) {
    yaml.in("hugepages", std::string(kPages[static_cast<std::size_t>(memory.hugepages)]));
    yaml.in("hugepage_directory", std::string(kHugepagesPath));
  }
  yaml.in_if("numa", memory.numa, "none");
  yaml.in("on_mismatch", "replace");  // larderd keeps memory that engines still use
}

void add_disk(const CachePool& pool, Yaml& yaml) {
  if (!pool.spec.disk) return;
  const api::DiskSpec& disk = *pool.spec.disk;
  yaml.section("disk");
  yaml.in("path", std::string(kDiskPath));
  yaml.in("size", size_text(disk.size_bytes));
  yaml.in("write", disk.write);
  yaml.in_if("ttl", disk.ttl, "0");
  yaml.in_if("admit_after", std::to_string(disk.admit_after), "1");
}

// Paths, not contents: larderd reads the files again after a rotation of the Secret.
void add_credentials(const api::BackendSpec& spec, Yaml& yaml) {
  if (spec.password) yaml.in("password_file", in_directory(kAuthPath, kPasswordFile));
  // larderd refuses Sentinel's options in another mode.
  if (spec.mode == api::BackendMode::kSentinel) {
    yaml.in_if("sentinel_user", spec.sentinel_user, "");
    if (spec.sentinel_password)
      yaml.in("sentinel_password_file", in_directory(kAuthPath, kSentinelPasswordFile));
  }
  if (!spec.tls.enabled) return;
  if (!spec.tls.ca_secret.empty()) yaml.in("ca_file", in_directory(kTlsPath, kCaFile));
  if (!spec.tls.client_secret.empty()) {
    yaml.in("cert_file", in_directory(kTlsPath, kCertFile));
    yaml.in("key_file", in_directory(kTlsPath, kKeyFile));
  }
  yaml.in_if("server_name", spec.tls.server_name, "");
}

// A pool with a missing backend gets a configuration without one, and serves from memory and disk.
void add_backend(const CachePool& pool, const std::optional<CacheBackend>& backend, Yaml& yaml) {
  if (!backend) return;
  const api::BackendWriteSpec& write = pool.spec.backend_write;
  yaml.section(kBackendSection);
  yaml.in("url", url_of(*backend));
  add_credentials(backend->spec, yaml);
  // Only a Cluster has replicas that larderd may read.
  if (backend->spec.mode == api::BackendMode::kCluster && backend->spec.read_replicas)
    yaml.in("read_replicas", "true");
  yaml.in("prefix", backend_prefix(pool));
  // Services behind plug-ins evict by their own rules: larderd refuses a ttl for a plug-in.
  if (!api::plugin_of(backend)) yaml.in_if("ttl", write.ttl, "0");
  yaml.in("write", write.policy);
  if (write.rate_bytes != 0) yaml.in("write_rate", rate_text(write.rate_bytes));
}

// A pod with hostNetwork serves no peer: two pods of a node would collide at the port, and no
// NetworkPolicy would guard the port. It reads from others.
void add_peers(const CachePool& pool, const EnginePod& engine, Yaml& yaml) {
  if (!pool.spec.peers) return;
  const api::PeersSpec& peers = *pool.spec.peers;
  yaml.section("peers");
  if (!engine.host_network) yaml.in("listen", ":" + std::to_string(api::kPeersPort));
  yaml.in("members", peers_members(pool));
  yaml.in_if("fanout", std::to_string(peers.fanout), "16");
  if (peers.serve_rate_bytes != 0) yaml.in("serve_rate", rate_text(peers.serve_rate_bytes));
  if (!peers.tls) return yaml.in("plaintext", "true");
  yaml.in("ca_file", in_directory(kPeersPath, kCaFile));
  yaml.in("cert_file", in_directory(kPeersPath, kCertFile));
  yaml.in("key_file", in_directory(kPeersPath, kKeyFile));
  yaml.in("server_name", peers_server_name(pool));
}

}  // namespace

// One prefix is one trust domain, and pools of many namespaces may share a server. Neither name may
// hold a dot, so that the pools `a-b` of `team` and `b` of `team-a` differ.
std::string backend_prefix(const CachePool& pool) {
  if (!pool.spec.backend_prefix.empty()) return pool.spec.backend_prefix;
  return pool.ns + "." + pool.name;
}

std::string socket_path(const CachePool& pool) {
  return std::string(kRunPath) + "/" + pool.name + ".sock";
}

std::string larderd_config(const CachePool& pool, const std::optional<CacheBackend>& backend,
                           const EnginePod& engine) {
  Yaml yaml;
  yaml.add("pool", pool.name);
  yaml.add("socket", socket_path(pool));
  yaml.add("socket_mode", "0660");
  if (pool.spec.transfer == api::Transfer::kSidecar) yaml.add("transfer", "sidecar");
  add_memory(pool, yaml);
  add_disk(pool, yaml);
  add_backend(pool, backend, yaml);
  add_peers(pool, engine, yaml);
  yaml.section("http");
  // Any host may read these pages. Verbs that change state answer only on the admin socket.
  yaml.in("listen", engine.host_network ? "" : ":" + std::to_string(api::kMetricsPort));
  return yaml.text();
}

// A value is one quoted line, so no value can look like a section.
// Reads the text of a configuration that an earlier operator wrote, and needs no YAML parser:
// sections begin a line.
bool has_backend(std::string_view config) {
  return config.find("\n" + std::string(kBackendSection) + ":\n") != std::string_view::npos;
}

}  // namespace larder::desired
