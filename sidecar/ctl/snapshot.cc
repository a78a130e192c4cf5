#include "sidecar/ctl/snapshot.h"

#include <nlohmann/json.hpp>

#include "sidecar/ctl/words.h"

namespace larder::ctl {
namespace {

using nlohmann::json;

std::uint64_t number(const json& object, const char* key) {
  return object.at(key).get<std::uint64_t>();
}
std::string text(const json& object, const char* key) {
  return printable(object.at(key).get<std::string>());
}

ModelCounts read_model(const json& model) {
  ModelCounts counts{
      text(model, "model"),        number(model, "requests"),     number(model, "requests_hit"), number(model, "tokens_asked"),
      number(model, "tokens_hit"), number(model, "bytes_loaded"), number(model, "bytes_stored"), 0};
  const std::uint64_t computed = number(model, "prefill_tokens");
  if (computed != 0)
    counts.saved_seconds =
        static_cast<double>(counts.hit) * model.at("prefill_seconds").get<double>() / static_cast<double>(computed);
  return counts;
}

void add(ModelCounts& sum, const ModelCounts& model) {
  sum.requests += model.requests;
  sum.requests_hit += model.requests_hit;
  sum.asked += model.asked;
  sum.hit += model.hit;
  sum.loaded += model.loaded;
  sum.stored += model.stored;
  sum.saved_seconds += model.saved_seconds;
}

Snapshot read(const json& status) {
  Snapshot snapshot;
  snapshot.version = text(status, "version");
  snapshot.pool = text(status, "pool");
  snapshot.epoch = number(status, "epoch");
  snapshot.uptime_seconds = status.at("uptime_seconds").get<double>();
  snapshot.healthy = status.at("healthy").get<bool>();
  snapshot.ready = status.at("ready").get<bool>();
  for (const json& model : status.at("models")) {
    snapshot.models.push_back(read_model(model));
    add(snapshot.all, snapshot.models.back());
  }
  const json& memory = status.at("memory");
  for (const char* reason : {"capacity", "dropped", "bad", "resized"}) snapshot.evicted += number(memory.at("evicted"), reason);
  snapshot.capacity_bytes = number(memory, "capacity_bytes");
  snapshot.used_bytes = number(memory, "used_bytes");
  snapshot.chunks = number(memory.at("slots"), "committed");
  for (const json& session : status.at("sessions").at("attached"))
    snapshot.sessions.push_back(
        {text(session, "engine"), number(session, "holds"), number(session, "grants"), session.at("silent").get<bool>()});
  return snapshot;
}

}  // namespace

Result<Snapshot> read_snapshot(const std::string& status_json) {
  try {
    return read(json::parse(status_json));
  } catch (const json::exception& error) {
    return Status(Code::kInvalidArgument, std::string("larderd's answer is not understood (another version?): ") + error.what());
  }
}

std::string headline(const Snapshot& snapshot) {
  const char* state = !snapshot.healthy ? "NOT HEALTHY: its event loop does not turn"
                      : !snapshot.ready ? "not ready: engines cannot attach yet"
                                        : "ready";
  return "larderd " + snapshot.version + ", pool " + snapshot.pool + ", up " + seconds_text(snapshot.uptime_seconds) + ": " +
         state + "\n";
}

}  // namespace larder::ctl
