#include "operator/kubectl/check_report.h"

#include <algorithm>

#include "operator/kubectl/line_diff.h"
#include "operator/kubectl/why_report.h"
#include "operator/kubectl/yaml_text.h"

namespace larder::kubectl {
namespace {

using api::Object;

constexpr int kWell = 0, kUnwell = 1, kNotFoundOut = 2;  // exit statuses

// A RayCluster has a template for each group: the title then names the path of the template.
// "RayCluster llm" alone would name two pods.
bool several_of_it(const CheckReport& report, const PlannedPod& planned) {
  return std::ranges::count_if(report.pods, [&](const Checked& one) {
           return one.planned.title(false) == planned.title(false);
         }) > 1;
}

std::string sentence_of(const CheckReport& report, const Checked& checked) {
  const PlannedPod& planned = checked.planned;
  const bool one = planned.is_pod();
  const std::string whose =
      planned.title(several_of_it(report, planned)) + (one ? " " : ": the pods ");
  const auto verb = [&](const char* of_one, const char* of_many) {
    return whose + (one ? of_one : of_many);
  };
  switch (checked.verdict) {
    case Verdict::kInjected:
      return verb("gets", "get") + " a cache of pool " + checked.pool +
             (checked.pod == checked.bare ? ", and has the cache already" : "");
    case Verdict::kNotAsked: return verb("does", "do") + " not ask for a cache";
    case Verdict::kNoCache: return verb("starts", "start") + " without a cache";
    case Verdict::kRefused: return verb("is", "are") + " refused";
    case Verdict::kUnknown: break;
  }
  return whose + "could not be checked";
}

// The words of JSON stay, since scripts compare them. The sentences for people may change.
const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kInjected: return "injected";
    case Verdict::kNotAsked: return "not-asked";
    case Verdict::kNoCache: return "no-cache";
    case Verdict::kRefused: return "refused";
    case Verdict::kUnknown: break;
  }
  return "unknown";
}

// The objects without a check, one line each.
std::string remarks(const CheckReport& report) {
  std::string text;
  if (!report.unread.empty()) text += "Not read: " + report.unread + "\n";
  if (report.without.empty()) return text;
  text += "No pod template in";
  for (const std::string& one : report.without)
    text += (&one == &report.without.front() ? " " : ", ") + one;
  return text +
         ". If a controller creates pods from such an object, check one of the pods: kubectl get "
         "pod POD -o yaml | kubectl larder check -f -\n";
}

// The YAML stays valid for kubectl apply, with the findings as comments.
std::string as_comment(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += "# " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

std::string head_of(const CheckReport& report, const Checked& checked) {
  std::string text = sentence_of(report, checked) + ".\n";
  for (const Diagnostic& finding : checked.findings) text += finding_text(finding, 0);
  return text;
}

}  // namespace

// "Not found out" outweighs a problem: a CI job must not take an unread file for a checked one.
int check_status(const CheckReport& report) {
  const auto any = [&](Verdict verdict) {
    return std::ranges::find(report.pods, verdict, &Checked::verdict) != report.pods.end();
  };
  if (!report.unread.empty() || any(Verdict::kUnknown)) return kNotFoundOut;
  return any(Verdict::kInjected) && !any(Verdict::kNoCache) && !any(Verdict::kRefused) ? kWell
                                                                                       : kUnwell;
}

std::string check_text(const CheckReport& report) {
  std::string text;
  for (const Checked& checked : report.pods) {
    text += (text.empty() ? "" : "\n") + head_of(report, checked);
    if (checked.verdict == Verdict::kInjected && !checked.bare.is_null())
      text += line_diff("without Larder", yaml_text(checked.bare), "with Larder",
                        yaml_text(checked.pod));
  }
  if (report.pods.empty()) text += "The files have no pod and no pod template.\n";
  return text + (report.pods.empty() ? "" : "\n") + remarks(report) + "No object was created.\n";
}

std::string check_yaml(const CheckReport& report) {
  std::string text;
  for (const Checked& checked : report.pods) {
    text += (text.empty() ? "" : "---\n") + as_comment(head_of(report, checked));
    if (!checked.pod.is_null()) text += yaml_text(checked.pod);
  }
  return text + as_comment(remarks(report));
}

// Names of fields stay; new fields may come.
std::string check_json(const CheckReport& report) {
  Object list = Object::array();
  for (const Checked& checked : report.pods)
    list.push_back({{"kind", checked.planned.kind},
                    {"namespace", checked.planned.ns},
                    {"name", checked.planned.name},
                    {"template", checked.planned.path},
                    {"verdict", word_of(checked.verdict)},
                    {"pool", checked.pool},
                    {"findings", findings_json(checked.findings)},
                    {"pod", checked.pod}});
  return json_text({{"well", check_status(report) == kWell},
                    {"checked", list},
                    {"withoutTemplate", report.without},
                    {"unread", report.unread}});
}

}  // namespace larder::kubectl
