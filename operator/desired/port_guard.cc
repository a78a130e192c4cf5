#include "operator/desired/port_guard.h"

#include <algorithm>
#include <utility>

namespace larder::desired {
namespace {

using api::Object;

constexpr int kLastPort = 65535;

Object ports(const char* protocol, PortRange range) {
  Object entry{{"protocol", protocol}, {"port", range.first}};
  if (range.last != range.first) entry["endPort"] = range.last;
  return entry;
}

}  // namespace

std::vector<PortRange> guarded_ports(const api::CachePool& pool,
                                     const std::optional<api::CacheBackend>& backend) {
  static_assert(std::ranges::all_of(api::kPlugins, [](const api::Plugin& plugin) {
    return !plugin.listens() || plugin.ports.first > kPeersPorts.last;
  }));
  std::vector<PortRange> guarded;
  if (pool.spec.peers) guarded.push_back(kPeersPorts);
  if (const api::Plugin* plugin = api::listening_plugin_of(backend))
    guarded.push_back(plugin->ports);
  return guarded;
}

// Invariant: the policy closes no port beside the guarded ports, and opens none that another policy
// closes.
Object port_guard(Object pods, PortRange own, Object from, const std::vector<PortRange>& guarded,
                  Isolation isolation) {
  Object rules = Object::array(
      {Object{{"from", std::move(from)}, {"ports", Object::array({ports("TCP", own)})}}});
  if (isolation == Isolation::kNone) {
    Object open = Object::array();
    int next = 1;
    for (const PortRange& range : guarded) {
      open.push_back(ports("TCP", {next, range.first - 1}));
      next = range.last + 1;
    }
    open.push_back(ports("TCP", {next, kLastPort}));
    open.push_back(ports("UDP", {1, kLastPort}));
    rules.push_back(Object{{"ports", std::move(open)}});
  }
  return Object{{"podSelector", {{"matchLabels", std::move(pods)}}},
                {"policyTypes", Object::array({"Ingress"})},
                {"ingress", std::move(rules)}};
}

}  // namespace larder::desired
