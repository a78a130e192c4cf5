#include "operator/reconcile/node_pages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "operator/reconcile/conditions.h"

namespace larder::reconcile {
namespace {

const k8s::Resource kNodes{"", "v1", "nodes", "Node", false};

}  // namespace

std::string pages_of_nodes(k8s::ApiClient& client, const std::string& page) {
  const Result<k8s::List> nodes = client.list(kNodes, {});
  const Result<std::uint64_t> page_bytes = api::quantity_bytes(page);
  if (!nodes.ok() || !page_bytes.ok()) return "";
  std::vector<std::pair<std::uint64_t, std::string>> counts;
  for (const api::Object& node : nodes->items) {
    const api::Object& allocatable = api::at(node, "status.allocatable");
    const Result<std::uint64_t> bytes = api::quantity_bytes(
        api::text_at(allocatable, "hugepages-" + page).empty() ? "0" : api::text_at(allocatable, "hugepages-" + page));
    counts.emplace_back(bytes.ok() ? *bytes / *page_bytes : 0, api::name_of(node));
  }
  std::ranges::sort(counts,
                    [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::vector<std::string> words;
  for (const auto& [count, name] : counts) words.push_back(name + " " + std::to_string(count));
  return some_of(words);
}

}  // namespace larder::reconcile
