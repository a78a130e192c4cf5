#include "sidecar/ctl/report.h"

#include "sidecar/base/text.h"
#include "sidecar/ctl/answer_json.h"

namespace larder::ctl {

using nlohmann::json;

namespace {

// Each verb has one reason for a refusal, so the counts suffice in the reply.
const char* why_refused(std::string_view done) {
  if (done == "pinned") return "too much is pinned";
  if (done == "evicted")
    return "gone from memory, but not noted on the disk; evict the chunks once more";
  return "too many wait already";
}

}  // namespace

Result<std::string> dropped_report(const std::string& body) {
  return understood(body, [](const json& answer) {
    const std::string done = "dropped " + base::plural(number_at(answer, "dropped"), "chunk");
    // An older larderd does not send `shared`.
    if (!answer.value("shared", false)) return done + "\n";
    return done +
           ", here and in the backend; other larderd of the backend keep their chunks in memory "
           "and on disk: drop the chunks there, too\n";
  });
}

std::string hashes_request(const std::string& space, std::span<const std::string> hashes) {
  const json request{{"namespace", space}, {"hashes", json(hashes)}};
  // `replace`, because the default throws for bytes that are no UTF-8, and words of a command line
  // may have such bytes.
  return request.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<protocol::ActCounts> read_acted(const std::string& body) {
  return understood(body, [](const json& answer) {
    // number_at() refuses negative numbers and fractions, since the answering process may be no
    // larderd.
    return protocol::ActCounts{number_at(answer, "found"), number_at(answer, "absent"),
                               number_at(answer, "refused")};
  });
}

std::string acted_report(std::string_view done, const protocol::ActCounts& acted) {
  std::string out = std::string(done) + " " + base::grouped(acted.found) + " of " +
                    base::grouped(acted.all()) + (acted.all() == 1 ? " hash" : " hashes");
  if (acted.absent != 0) out += ", " + base::grouped(acted.absent) + " absent";
  if (acted.refused != 0)
    out += ", " + base::grouped(acted.refused) + " refused: " + why_refused(done);
  return out + "\n";
}

// Of all parts together: act() sends several requests for many hashes.
std::string acted_json(const protocol::ActCounts& acted) {
  const nlohmann::ordered_json answer{
      {"found", acted.found}, {"absent", acted.absent}, {"refused", acted.refused}};
  return answer.dump(2) + "\n";
}

// larderd's errors are JSON; an error of cpp-httplib or another server may be any text, and only
// its first line is shown.
std::string error_of(const std::string& body) {
  // Without exceptions: any text may arrive here.
  const json parsed = json::parse(body, nullptr, false);
  if (parsed.is_object() && parsed.contains("error") && parsed["error"].is_string())
    return text_at(parsed, "error");
  return base::printable(body.substr(0, body.find('\n')));
}

}  // namespace larder::ctl
