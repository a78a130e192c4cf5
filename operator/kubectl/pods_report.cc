#include "operator/kubectl/pods_report.h"

#include "operator/kubectl/hit_diagnostics.h"
#include "operator/kubectl/table.h"
#include "operator/kubectl/why_report.h"
#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;

std::string memory_text(const ctl::MemoryState& memory) {
  return base::bytes_text(memory.used_bytes) + "/" + base::bytes_text(memory.capacity_bytes);
}

// The first finding of weight: findings are sorted by weight.
std::string reason_of(const PodLine& line) {
  for (const Diagnostic& finding : line.findings)
    if (finding.weight != Diagnostic::Weight::kNote) return finding.reason;
  return "";
}

std::string word(std::optional<bool> truth) {
  return !truth ? "-" : *truth ? "yes" : "no";
}

}  // namespace

// nullopt ("-"): larderd gave no answer, so the attachment is unknown.
std::optional<bool> attached(const PodLine& line) {
  if (!line.pod.injected) return false;
  if (line.larderd == nullptr) return std::nullopt;
  return !line.larderd->sessions.attached.empty();
}

std::string pods_text(const std::vector<PodLine>& lines, bool with_namespace) {
  std::vector<Row> rows{{"POD", "POOL", "INJECTED", "ATTACHED", "HITS", "MEMORY", "REASON"}};
  for (const PodLine& line : lines)
    rows.push_back(
        {line.pod.view.name, line.pool.empty() ? "-" : line.pool, line.pod.injected ? "yes" : "no",
         word(attached(line)), line.larderd == nullptr ? "-" : hit_ratio(line.larderd->all),
         line.larderd == nullptr ? "-" : memory_text(line.larderd->memory), reason_of(line)});
  // -A shows the namespace as the first column, as kubectl does.
  if (with_namespace)
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i].insert(rows[i].begin(), i == 0 ? "NAMESPACE" : lines[i - 1].pod.view.ns);
  return table_text(rows);
}

std::string pods_json(const std::vector<PodLine>& lines) {
  Object list = Object::array();
  for (const PodLine& line : lines) {
    Object one = {{"namespace", line.pod.view.ns},
                  {"pod", line.pod.view.name},
                  {"pool", line.pool},
                  {"node", line.pod.node},
                  {"injected", line.pod.injected},
                  {"findings", findings_json(line.findings)}};
    // null in JSON: unknown, since larderd did not answer.
    one["attached"] = attached(line) ? Object(*attached(line)) : Object();
    if (line.larderd != nullptr) {
      const ctl::Snapshot& now = *line.larderd;
      one["larderd"] = {{"version", now.version},
                        {"engines", now.sessions.attached.size()},
                        {"requests", now.all.requests},
                        {"requestsHit", now.all.requests_hit},
                        {"requestsSalted", now.all.salted},
                        {"tokensAsked", now.all.asked},
                        {"tokensHit", now.all.hit},
                        {"memoryUsedBytes", now.memory.used_bytes},
                        {"memorySizeBytes", now.memory.capacity_bytes}};
    }
    list.push_back(std::move(one));
  }
  return json_text({{"pods", list}});
}

}  // namespace larder::kubectl
