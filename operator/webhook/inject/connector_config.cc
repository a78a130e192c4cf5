#include "operator/webhook/inject/connector_config.h"

#include <algorithm>

#include "operator/api/object.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr const char* kOwnConnector = "LarderConnector";

// kv_both: the engine loads from and stores into the cache. vLLM imports the connector from the
// module path.
Object own_config(int chunk_tokens) {
  Object config = {{"kv_connector", kOwnConnector},
                   {"kv_connector_module_path", "larder.vllm"},
                   {"kv_role", "kv_both"}};
  if (chunk_tokens > 0) config["kv_connector_extra_config"] = {{"chunk_tokens", chunk_tokens}};
  return config;
}

bool is_larder(const Object& config) {
  return api::text_at(config, "kv_connector") == kOwnConnector;
}

// Whether a MultiConnector has Larder at any depth.
// The depth is bounded by api::kMostDepth, since the text came through parse_json().
bool has_larder(const Object& config) {
  if (is_larder(config)) return true;
  const Object& connectors = api::at(config, "kv_connector_extra_config.connectors");
  return connectors.is_array() && std::ranges::any_of(connectors, has_larder);
}

// The existing connector as a child. vLLM passes engine_id down and refuses a child with an own
// one.
Object as_child(Object config) {
  config.erase("engine_id");
  config.erase("kv_load_failure_policy");
  return config;
}

// A failed load must be recomputed. The engine's role is the union of all connectors' roles, since
// vLLM holds freed blocks back only for an engine that loads.
// vLLM's policy "fail" would end a request whose load failed, and a cache must never fail a
// request.
void make_cache_safe(Object& outer) {
  outer["kv_load_failure_policy"] = "recompute";
  outer["kv_role"] = "kv_both";
}

}  // namespace

std::string connector_config(int chunk_tokens) {
  return own_config(chunk_tokens).dump();
}

// A connector of the user is never lost: a text that cannot be read is an error, and the pod stays
// as it is.
Result<std::string> composed_config(std::string_view existing, int chunk_tokens) {
  const auto parsed = api::parse_json(existing);
  if (!parsed.ok() || !parsed->is_object() || !api::at(*parsed, "kv_connector").is_string())
    return Status(Code::kUnsupported,
                  "--kv-transfer-config is not a readable JSON object with a kv_connector; write "
                  "the value as one");
  if (is_larder(*parsed)) return std::string(existing);  // a second injection changes no field
  // The user chose "fail" for the own connector. The injector does not overrule the choice, and
  // cannot keep it.
  if (api::text_at(*parsed, "kv_load_failure_policy") == "fail")
    return Status(Code::kUnsupported,
                  "--kv-transfer-config says kv_load_failure_policy fail, and a failed load of the "
                  "cache would fail the request; use recompute");
  if (api::text_at(*parsed, "kv_connector") != "MultiConnector") {
    Object outer = *parsed;
    // The module path belongs to the child connector. MultiConnector is vLLM's own.
    outer.erase("kv_connector_module_path");
    outer["kv_connector"] = "MultiConnector";
    outer["kv_connector_extra_config"] = {
        // The user's connector stays first, since MultiConnector loads from the first connector
        // with a hit.
        {"connectors", {as_child(*parsed), own_config(chunk_tokens)}}};
    make_cache_safe(outer);
    return outer.dump();
  }
  Object outer = *parsed;
  const Object& connectors = api::at(outer, "kv_connector_extra_config.connectors");
  if (!connectors.is_array())
    return Status(Code::kUnsupported,
                  "the MultiConnector has no list kv_connector_extra_config.connectors; write the "
                  "list, and Larder joins the list");
  if (has_larder(outer)) return std::string(existing);
  outer["kv_connector_extra_config"]["connectors"].push_back(own_config(chunk_tokens));
  make_cache_safe(outer);
  return outer.dump();
}

}  // namespace larder::webhook
