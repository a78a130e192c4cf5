#include "operator/reconcile/node_pages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "operator/reconcile/conditions.h"

namespace larder::reconcile {
namespace {

using api::Object;

const k8s::Resource kNodes{"", "v1", "nodes", "Node", false};
constexpr std::size_t kMostNodes = 5;  // whose pods are asked for: each is a list

std::uint64_t bytes_at(const Object& quantities, std::string_view resource) {
  if (!quantities.is_object()) return 0;
  const auto found = quantities.find(resource);
  if (found == quantities.end() || !found->is_string()) return 0;
  const Result<std::uint64_t> bytes = api::quantity_bytes(found->get_ref<const std::string&>());
  return bytes.ok() ? *bytes : 0;
}

// Of huge pages request and limit are equal, and a limit alone is both.
std::uint64_t asked_by_container(const Object& container, std::string_view resource) {
  return std::max(bytes_at(api::at(container, "resources.requests"), resource),
                  bytes_at(api::at(container, "resources.limits"), resource));
}

// Of all pods on a node; nothing: they could not be asked.
Result<std::uint64_t> asked_on(k8s::ApiClient& client, const std::string& node, const std::string& resource) {
  std::uint64_t bytes = 0;
  const Result<std::string> listed =
      client.list_into(k8s::resources::kPods, {.ns = "", .labels = "", .fields = "spec.nodeName=" + node},
                       {[&](const Object& pod) { bytes += asked_by(pod, resource); }, [&] { bytes = 0; }});
  return listed.ok() ? Result<std::uint64_t>(bytes) : Result<std::uint64_t>(listed.status());
}

}  // namespace

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
  for (const Object& container : api::at(pod, "spec.containers")) together += asked_by_container(container, resource);
  return std::max(together, first);
}

std::string pages_of_nodes(k8s::ApiClient& client, const std::string& page) {
  const Result<k8s::List> nodes = client.list(kNodes, {});
  const Result<std::uint64_t> page_bytes = api::quantity_bytes(page);
  if (!nodes.ok() || !page_bytes.ok()) return "";
  const std::string resource = "hugepages-" + page;
  std::vector<std::pair<std::uint64_t, std::string>> have;
  for (const Object& node : nodes->items)
    if (const std::uint64_t bytes = bytes_at(api::at(node, "status.allocatable"), resource); bytes > 0)
      have.emplace_back(bytes, api::name_of(node));
  const std::size_t without = nodes->items.size() - have.size();
  std::ranges::sort(have,
                    [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(have.size(), kMostNodes); ++i) {
    const auto& [bytes, name] = have[i];
    const Result<std::uint64_t> asked = asked_on(client, name, resource);
    const std::string free = asked.ok() ? std::to_string((bytes - std::min(bytes, *asked)) / *page_bytes) + " free of " : "";
    text += (text.empty() ? "" : ", ") + name + " " + free + std::to_string(bytes / *page_bytes);
  }
  if (have.size() > kMostNodes) text += " and " + std::to_string(have.size() - kMostNodes) + " more";
  if (have.empty()) return "none of " + std::to_string(without) + " has any";
  return without == 0 ? text : text + "; " + std::to_string(without) + " without any";
}

}  // namespace larder::reconcile
