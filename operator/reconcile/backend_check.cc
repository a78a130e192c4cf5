#include "operator/reconcile/backend_check.h"

#include <array>

#include "operator/reconcile/backend_remedies.h"
#include "operator/reconcile/memory_file.h"
#include "sidecar/backend_check/installation_check.h"
#include "sidecar/backend_check/installation_diagnostics.h"
#include "sidecar/config/loader.h"

namespace larder::reconcile {
namespace {

// The configuration that larderd would get. The paths belong to `files`, which must live as long.
Result<config::Config> configured(const api::CacheBackend& backend, const BackendSecrets& secrets,
                                  const std::string& prefix, std::vector<MemoryFile>& files) {
  // The check reads the configuration by larderd's own loader: an option that larderd would refuse
  // is a fault of the backend here, too.
  std::vector<config::Value> values{{"backend.url", api::url_of(backend), "spec.endpoints"},
                                    {"backend.prefix", prefix, "the prefix of keys"}};
  // larderd reads passwords and keys from files. A file of memory gives the loader a path without a
  // secret on a disk.
  for (const auto& [option, bytes] : secrets.bytes) {
    Result<MemoryFile> file = MemoryFile::of(bytes);
    if (!file.ok()) return file.status();
    values.push_back({option, file->path(), option});
    files.push_back(std::move(*file));
  }
  if (!backend.spec.sentinel_user.empty())
    values.push_back({"backend.sentinel_user", backend.spec.sentinel_user, "spec.sentinelUser"});
  if (!backend.spec.tls.server_name.empty())
    values.push_back({"backend.server_name", backend.spec.tls.server_name, "spec.tls.serverName"});
  return config::load(values);
}

// A server that did not answer to the end has no facts; the findings name that server.
void take_server(const backend_check::ServerFacts& facts, BackendSeen& seen) {
  if (facts.ended != backend_check::ServerFacts::Step::kNone) return;
  // A Cluster has many servers: product, version, role and mode are those of the first one, and
  // bytes are sums.
  if (seen.servers++ == 0) {
    seen.product = facts.product;
    seen.version = facts.version;
    seen.role = facts.role;
    seen.mode = facts.mode;
  }
  seen.used_bytes += facts.used_bytes.value_or(0);
  seen.max_bytes += facts.max_bytes.value_or(0);
  // The slowest server decides, since a load of several chunks waits for the slowest.
  seen.ping_ns = std::max(seen.ping_ns, facts.pings.p50_ns);
}

class RemoteCheck final : public BackendCheck {
 public:
  explicit RemoteCheck(const base::Clock& clock) : clock_(clock) {}

  Result<BackendSeen> check(const api::CacheBackend& backend, const BackendSecrets& secrets,
                            const std::string& prefix, const std::stop_token& stop) override {
    std::vector<MemoryFile> files;
    const Result<config::Config> config = configured(backend, secrets, prefix, files);
    if (!config.ok()) return config.status();
    const backend_check::InstallationFacts facts = backend_check::check_installation(
        // kAnswersAlone: a check every 30 s must not move megabytes through a server that serves
        // engines.
        remote::options_of(config->backend), clock_, backend_check::Measured::kAnswersAlone, stop);
    BackendSeen seen;
    for (const backend_check::CheckedServer& server : facts.servers)
      take_server(server.facts, seen);
    for (const backend_check::Diagnostic& finding :
         backend_check::findings_of(config->backend, facts, 1)) {
      // Notes are for people who run larderctl, and would make a condition of a healthy backend
      // long.
      if (finding.weight == backend_check::Weight::kNote) continue;
      const bool unusable = finding.weight == backend_check::Weight::kUnusable;
      seen.findings.push_back(
          {unusable ? BackendFinding::Weight::kUnusable : BackendFinding::Weight::kWarning,
           finding.id,
           finding.what + where_of(finding.where) + ". " +
               remedy_for_backend(finding.id, finding.remedy)});
    }
    return seen;
  }

 private:
  // One server stands for all: a Cluster of a hundred servers would fill the condition.
  static std::string where_of(const std::vector<std::string>& servers) {
    return servers.empty()
               ? ""
               : " (" + servers.front() + (servers.size() > 1 ? " and others" : "") + ")";
  }

  const base::Clock& clock_;
};

}  // namespace

std::unique_ptr<BackendCheck> BackendCheck::make(const base::Clock& clock) {
  return std::make_unique<RemoteCheck>(clock);
}

}  // namespace larder::reconcile
