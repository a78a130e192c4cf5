#include "operator/k8s/health.h"

#include <algorithm>

namespace larder::k8s {
namespace {

constexpr const char* kText = "text/plain; charset=utf-8";

// "/readyz/NAME" or "/readyz"; false: it is of another path.
// Kubernetes asks /readyz, and people ask /readyz/NAME or /readyz?verbose, as for the API server.
bool is_below(std::string_view path, std::string_view root, std::string_view& name) {
  if (!path.starts_with(root)) return false;
  name = path.substr(root.size());
  if (name.empty()) return true;
  if (name.front() != '/') return false;
  name.remove_prefix(1);
  return true;
}

}  // namespace

void HealthChecks::add(Kind kind, const std::string& name, Check check) {
  const std::lock_guard lock(mutex_);
  (kind == Kind::kLive ? live_ : ready_).insert_or_assign(name, std::move(check));
}

Page HealthChecks::page(std::string_view target) const {
  const std::size_t question = target.find('?');
  const std::string_view path = target.substr(0, question);
  const bool verbose =
      question != std::string_view::npos && target.substr(question + 1).starts_with("verbose");
  std::string_view name;
  const bool live = is_below(path, "/healthz", name);
  if (!live && !is_below(path, "/readyz", name))
    return {404, kText, "no such page: /healthz, /readyz\n"};
  Checks checks;
  {
    // The checks run outside the lock: a check may take the lock of a cache.
    const std::lock_guard lock(mutex_);
    checks = live ? live_ : ready_;
  }
  if (!name.empty() && !checks.contains(std::string(name)))
    return {404, kText, "no check of this name\n"};
  bool good = true;
  std::string lines;
  for (const auto& [check_name, check] : checks) {
    if (!name.empty() && check_name != name) continue;
    const Status status = check();
    good = good && status.ok();
    lines += (status.ok() ? "[+]" : "[-]") + check_name +
             (status.ok() ? " ok" : " failed: " + status.to_string()) + "\n";
  }
  const std::string_view root = live ? "healthz" : "readyz";
  lines += std::string(root) + (good ? " check passed\n" : " check failed\n");
  return {good ? 200 : 500, kText, good && !verbose ? "ok\n" : lines};
}

// The probes of the kubelet send no body, so the first line is enough.
std::string_view get_target(std::string_view request) {
  constexpr std::string_view kGet = "GET ";
  if (!request.starts_with(kGet)) return {};
  request.remove_prefix(kGet.size());
  return request.substr(0, std::min(request.find(' '), request.find('\r')));
}

}  // namespace larder::k8s
