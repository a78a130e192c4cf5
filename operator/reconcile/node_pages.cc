#include "operator/reconcile/node_pages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "operator/reconcile/conditions.h"

namespace larder::reconcile {
namespace {

using api::Object;

const k8s::Resource kNodes{"", "v1", "nodes", "Node", false};
// Five nodes are enough for a sentence, and bound the load that a pool without pages causes at the
// API server.
constexpr std::size_t kMostNodes = 5;  // each node costs a list of its pods

// An invalid quantity counts as none: the API server does not store such a quantity.
std::uint64_t bytes_at(const Object& quantities, std::string_view resource) {
  if (!quantities.is_object()) return 0;
  const auto found = quantities.find(resource);
  if (found == quantities.end() || !found->is_string()) return 0;
  const Result<std::uint64_t> bytes = api::quantity_bytes(found->get_ref<const std::string&>());
  return bytes.ok() ? *bytes : 0;
}

// For huge pages, request and limit are equal; a limit alone sets both.
// Kubernetes demands equal requests and limits for huge pages.
std::uint64_t asked_by_container(const Object& container, std::string_view resource) {
  return std::max(bytes_at(api::at(container, "resources.requests"), resource),
                  bytes_at(api::at(container, "resources.limits"), resource));
}

// The requests of all pods on a node; empty: unknown.
Result<std::uint64_t> asked_on(k8s::ApiClient& client, const std::string& node,
                               const std::string& resource) {
  std::uint64_t bytes = 0;
  // list_into() keeps one page of pods in memory at a time.
  const Result<std::string> listed = client.list_into(
      k8s::resources::kPods, {.ns = "", .labels = "", .fields = "spec.nodeName=" + node},
      {[&](const Object& pod) { bytes += asked_by(pod, resource); }, [&] { bytes = 0; }});
  return listed.ok() ? Result<std::uint64_t>(bytes) : Result<std::uint64_t>(listed.status());
}

}  // namespace

// The scheduler's sum: containers together, or the largest init container beside the sidecars
// started before it.
std::uint64_t asked_by(const Object& pod, std::string_view resource) {
  const std::string phase = api::text_at(pod, "status.phase");
  if (phase == "Succeeded" || phase == "Failed") return 0;
  std::uint64_t together = 0, first = 0;
  for (const Object& container : api::at(pod, "spec.initContainers")) {
    const std::uint64_t bytes = asked_by_container(container, resource);
    if (api::text_at(container, "restartPolicy") == "Always")
      together += bytes;
    else
      first = std::max(first, together + bytes);
  }
  for (const Object& container : api::at(pod, "spec.containers"))
    together += asked_by_container(container, resource);
  return std::max(together, first);
}

// A role without the right to list nodes gives `known == false`, and the condition names pages
// without nodes.
PagesSeen pages_of_nodes(k8s::ApiClient& client, const std::string& page) {
  PagesSeen seen;
  const Result<k8s::List> nodes = client.list(kNodes, {});
  const Result<std::uint64_t> page_bytes = api::quantity_bytes(page);
  if (!nodes.ok() || !page_bytes.ok()) return seen;
  seen.known = true;
  const std::string resource = "hugepages-" + page;
  for (const Object& node : nodes->items)
    if (const std::uint64_t bytes = bytes_at(api::at(node, "status.allocatable"), resource);
        bytes > 0)
      seen.nodes.push_back({api::name_of(node), bytes / *page_bytes, std::nullopt});
  seen.without = nodes->items.size() - seen.nodes.size();
  // The largest nodes first: they are the likeliest place, and only five are asked for free pages.
  std::ranges::sort(seen.nodes, [](const NodePages& a, const NodePages& b) {
    return a.total != b.total ? a.total > b.total : a.node < b.node;
  });
  seen.more = seen.nodes.size() - std::min(seen.nodes.size(), kMostNodes);
  seen.nodes.resize(seen.nodes.size() - seen.more);
  for (NodePages& node : seen.nodes)
    // A node whose pods cannot be listed stays in the text, without its free pages.
    if (const Result<std::uint64_t> asked = asked_on(client, node.node, resource); asked.ok())
      node.free = node.total - std::min(node.total, (*asked + *page_bytes - 1) / *page_bytes);
  return seen;
}

std::string text_of(const PagesSeen& seen) {
  if (seen.nodes.empty()) return "none of " + std::to_string(seen.without) + " has any";
  std::string text;
  for (const NodePages& node : seen.nodes)
    text += (text.empty() ? "" : ", ") + node.node + " " +
            (node.free ? std::to_string(*node.free) + " free of " : "") +
            std::to_string(node.total);
  if (seen.more > 0) text += " and " + std::to_string(seen.more) + " more";
  return seen.without == 0 ? text : text + "; " + std::to_string(seen.without) + " without any";
}

bool have_enough(const PagesSeen& seen, std::uint64_t needed) {
  return std::ranges::any_of(
      seen.nodes, [needed](const NodePages& node) { return node.free && *node.free >= needed; });
}

// A user writes totals into vm.nr_hugepages: pages in use, plus the pages that this pool needs.
std::string totals_for(const PagesSeen& seen, std::uint64_t needed) {
  std::string text;
  for (const NodePages& node : seen.nodes)
    if (node.free && *node.free < needed)
      text += (text.empty() ? "" : ", ") + std::to_string(node.total - *node.free + needed) +
              " on " + node.node;
  return text;
}

}  // namespace larder::reconcile
