#include "operator/kubectl/trial.h"

#include <algorithm>
#include <array>

#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;

constexpr std::string_view kWarning = "Warning: ", kServerSays = "Error from server";
constexpr std::size_t kMostShown = 4000;  // bytes of a refusal
// Messages of an API server that has not judged the pod.
// The API server has not judged the pod. The user lacks a right, another webhook has side effects,
// or the server is busy.
constexpr std::array<std::string_view, 6> kNotJudged{
    "cannot create resource", "does not support dry run",
    "(ServiceUnavailable)",   "(Timeout)",
    "(TooManyRequests)",      "(Unauthorized)"};

// Each line becomes printable here: refusals quote fields of pods.
std::vector<std::string> printable_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(base::printable(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

// kubectl's two forms; the second one is for a failed validation.
bool begins_a_refusal(const std::string& line) {
  return line.starts_with(kServerSays) ||
         (line.starts_with("The ") && line.find(" is invalid") != std::string::npos);
}

// Removes kubectl's words in front.
std::string servers_words(const std::string& line) {
  if (!line.starts_with(kServerSays)) return line.substr(0, line.find_last_not_of(' ') + 1);
  constexpr std::string_view kCreating = "error when creating \"STDIN\": ";
  if (const std::size_t at = line.find(kCreating); at != std::string::npos)
    return line.substr(at + kCreating.size());
  const std::size_t colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

// Parses consecutive JSON values.
// kubectl prints the objects of several files one after the other, without a list around them.
std::vector<std::string_view> values_in(std::string_view text) {
  std::vector<std::string_view> values;
  std::size_t depth = 0, begin = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' && depth++ == 0) {
      begin = i;
    } else if (c == '}' && depth != 0 && --depth == 0) {
      values.push_back(text.substr(begin, i + 1 - begin));
    }
  }
  return values;
}

}  // namespace

// Standard error has warnings first, then at most one refusal, which may have several lines ("*
// spec...").
Trial trial_of(const Kubectl::Heard& heard) {
  Trial trial;
  bool refused = false;
  for (const std::string& line : printable_lines(heard.err)) {
    if (!refused && line.starts_with(kWarning)) {
      trial.warnings.push_back(line.substr(kWarning.size()));
    } else if (!refused && begins_a_refusal(line)) {
      refused = true;
      trial.refusal = servers_words(line);
    } else if (refused) {
      trial.refusal += (line.starts_with("* ") ? " " : "; ") + line;
    }
  }
  if (trial.refusal.size() > kMostShown)
    trial.refusal = trial.refusal.substr(0, kMostShown) + "...";
  const auto says = [&](std::string_view words) {
    return heard.err.find(words) != std::string::npos;
  };
  // kubectl failed without a refusal of the API server: the pod was not judged.
  if (!heard.ended.ok()) {
    if (!refused || std::ranges::any_of(kNotJudged, says)) trial.asked = heard.ended;
    if (!trial.asked.ok()) trial.refusal.clear();
    return trial;
  }
  trial.refusal.clear();
  Result<Object> pod = api::parse_json(heard.out);
  if (pod.ok())
    trial.pod = *std::move(pod);
  else
    trial.asked = pod.status();
  return trial;
}

// --dry-run=server runs the whole admission, webhooks included, and stores nothing.
// --validate=ignore: the server judges, not kubectl's older schema.
std::vector<Trial> try_pods(const Kubectl& kubectl, const std::vector<Object>& pods) {
  std::vector<Kubectl::Call> calls;
  for (const Object& pod : pods) {
    Words words{"create", "--dry-run=server", "--validate=ignore", "--output=json", "--filename=-"};
    if (const std::string ns = api::namespace_of(pod); !ns.empty())
      words.push_back("--namespace=" + ns);
    calls.push_back({std::move(words), pod.dump(-1, ' ', false, Object::error_handler_t::replace)});
  }
  std::vector<Trial> trials;
  for (const Result<Kubectl::Heard>& heard : kubectl.hear_all(calls)) {
    trials.push_back(heard.ok() ? trial_of(*heard) : Trial());
    if (!heard.ok()) trials.back().asked = heard.status();
  }
  return trials;
}

// A client-side dry run reads files, folders, URLs and kustomizations as kubectl does, without a
// request for each object.
Result<GivenObjects> objects_of_files(const Kubectl& kubectl, const Words& options) {
  Words words{"create", "--dry-run=client", "--validate=ignore", "--output=json"};
  words.insert(words.end(), options.begin(), options.end());
  const Result<Kubectl::Heard> heard = kubectl.hear({words});
  if (!heard.ok()) return heard.status();
  GivenObjects given;
  for (const std::string_view value : values_in(heard->out)) {
    Result<Object> object = api::parse_json(value);
    if (!object.ok()) return object.status();
    given.objects.push_back(*std::move(object));
  }
  // Some files were read: check reports the others as unread (exit status 2).
  if (!heard->ended.ok() && given.objects.empty()) return heard->ended;
  if (!heard->ended.ok()) given.unread = heard->ended.text();
  return given;
}

}  // namespace larder::kubectl
