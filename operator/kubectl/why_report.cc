#include "operator/kubectl/why_report.h"

namespace larder::kubectl {
namespace {

using api::Object;
using Weight = Diagnostic::Weight;

// Marks at the start of a line: readable without colours, in logs and pipes.
const char* mark_of(Weight weight) {
  return weight == Weight::kProblem ? "! " : weight == Weight::kPerhaps ? "? " : "  ";
}
const char* word_of(Weight weight) {
  return weight == Weight::kProblem ? "problem" : weight == Weight::kPerhaps ? "perhaps" : "note";
}

// larderd's own pods (placement Node) have the cache without an injection.
std::string verdict(const PodState& pod, const Findings& findings) {
  if (!pod.injected && !pod.view.has_larderd) return "has no cache";
  if (has_problem(findings)) return "has a cache with problems";
  return "has a cache";
}

}  // namespace

std::string finding_text(const Diagnostic& finding, std::size_t indent) {
  const std::string space(indent, ' ');
  std::string text = space + mark_of(finding.weight) + finding.reason + ": " + finding.what + "\n";
  if (!finding.remedy.empty()) text += space + "    -> " + finding.remedy + "\n";
  return text;
}

std::string why_text(const PodState& pod, const Findings& findings) {
  std::string text = "Pod " + pod.place() + " " + verdict(pod, findings) + ".\n";
  for (const Diagnostic& finding : findings) text += finding_text(finding, 0);
  return text;
}

// Invariant: names of fields in JSON stay; texts for people may change.
Object findings_json(const Findings& findings) {
  Object list = Object::array();
  for (const Diagnostic& finding : findings)
    list.push_back({{"weight", word_of(finding.weight)},
                    {"reason", finding.reason},
                    {"message", finding.what},
                    {"todo", finding.remedy}});
  return list;
}

std::string why_json(const PodState& pod, const Findings& findings) {
  return json_text({{"namespace", pod.view.ns},
                    {"pod", pod.view.name},
                    {"injected", pod.injected},
                    {"well", !has_problem(findings)},
                    {"findings", findings_json(findings)}});
}

// `replace`: a text with invalid UTF-8 must not end the program.
std::string json_text(const Object& object) {
  return object.dump(2, ' ', false, Object::error_handler_t::replace) + "\n";
}

}  // namespace larder::kubectl
