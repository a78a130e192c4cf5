#include "operator/reconcile/larderd_answer.h"

#include <algorithm>

#include "operator/api/object.h"
#include "shim/base/utf8.h"

namespace larder::reconcile {
namespace {

using api::Object;

constexpr std::uint64_t kMostBytes = 1ULL << 50;  // per larderd, so that sums over thousands fit
constexpr std::uint64_t kMostCount = 1ULL << 53;  // exact as a double, in metrics
// Any process at a pod's address may answer: texts are bounded before they reach a condition.
constexpr std::size_t kMostText = 200, kMostReason = 500, kMostFallbacks = 16;

// A negative number comes from no larderd. Saturated numbers keep sums and metrics in range.
std::uint64_t count_at(const Object& object, std::string_view path,
                       std::uint64_t most = kMostCount) {
  const std::int64_t number = api::number_at(object, path);
  return number < 0 ? 0 : std::min(static_cast<std::uint64_t>(number), most);
}

std::string short_text(const Object& object, std::string_view path, std::size_t most = kMostText) {
  return std::string(cut_text(api::text_at(object, path), most));
}

}  // namespace

// Invariant: the answer of a pod affects only the figures of its own pool. Every number and text is
// bounded here, and Prober keeps the answers by the uid of the pod.
Result<LarderdAnswer> read_answer(std::string_view body) {
  if (body.size() > kMostAnswerBytes)
    return Status(Code::kInvalidArgument, "larderd's status has more than 1 MiB");
  const Result<Object> parsed = api::parse_json(body);
  if (!parsed.ok()) return parsed.status();
  const Object& status = *parsed;
  // The address of a dead pod may belong to another pod by now. A foreign JSON page must not become
  // figures of the pool.
  if (!api::at(status, "memory").is_object() || api::text_at(status, "version").empty())
    return Status(Code::kInvalidArgument,
                  "the answering server is not a larderd: /v1/status has no memory or no version");
  LarderdAnswer answer;
  answer.version = short_text(status, "version");
  answer.capacity_bytes = count_at(status, "memory.capacity_bytes", kMostBytes);
  // used above capacity would show a fill of more than 100% in dashboards.
  answer.used_bytes =
      std::min(count_at(status, "memory.used_bytes", kMostBytes), answer.capacity_bytes);
  answer.disk_capacity_bytes = count_at(status, "disk.capacity_bytes", kMostBytes);
  answer.disk_used_bytes = count_at(status, "disk.used_bytes", kMostBytes);
  const auto add = [](std::uint64_t& sum, std::uint64_t more) {
    sum = std::min(sum + more, kMostCount);
  };
  for (const Object& model : api::at(status, "models")) {
    add(answer.requests, count_at(model, "requests"));
    add(answer.requests_hit, count_at(model, "requests_hit"));
    add(answer.tokens_asked, count_at(model, "tokens_asked"));
    add(answer.tokens_hit, count_at(model, "tokens_hit"));
  }
  answer.engines = api::at(status, "sessions.attached").size();
  if (api::at(status, "backend").is_object())
    answer.backend = LarderdAnswer::Backend{api::truth_at(status, "backend.serving"),
                                            short_text(status, "backend.reason", kMostReason),
                                            short_text(status, "backend.mode")};
  if (api::at(status, "peers").is_object())
    answer.peers = LarderdAnswer::Peers{count_at(status, "peers.servers.known"),
                                        count_at(status, "peers.servers.reachable"),
                                        count_at(status, "peer_serving.gets.bytes"),
                                        short_text(status, "peers.reason", kMostReason)};
  for (const Object& fallback : api::at(status, "fallbacks"))
    if (answer.fallbacks.size() < kMostFallbacks)
      answer.fallbacks.push_back(
          {short_text(fallback, "kind"), short_text(fallback, "why", kMostReason)});
  return answer;
}

Result<LarderdDown> read_supervisor(std::string_view body) {
  if (body.size() > kMostAnswerBytes)
    return Status(Code::kInvalidArgument, "the supervisor's answer has more than 1 MiB");
  const Result<Object> parsed = api::parse_json(body);
  if (!parsed.ok()) return parsed.status();
  if (!api::at(*parsed, "ready").is_boolean())
    return Status(Code::kInvalidArgument, "the answer is not from the supervisor of larderd");
  // larderd came back between the two questions: there is no reason to report.
  if (api::truth_at(*parsed, "ready")) return Status(Code::kNotFound, "larderd is ready");
  return LarderdDown{short_text(*parsed, "why"), api::truth_at(*parsed, "out_of_memory")};
}

}  // namespace larder::reconcile
