// Every field of a status is in the definition: the API server would drop others, and the status
// would be written again and again.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "operator/k8s/yaml_object.h"
#include "operator/reconcile/backend_status.h"
#include "operator/reconcile/pool_status.h"

namespace larder::reconcile {
namespace {

using api::Object;

Object status_schema(const std::string& file) {
  std::ifstream in(std::string(CRD_FOLDER) + "/" + file);
  std::stringstream text;
  text << in.rdbuf();
  const Result<Object> definition = k8s::parse_yaml(text.str());
  EXPECT_TRUE(definition.ok()) << definition.status().text();
  if (!definition.ok()) return Object();
  return api::at((*definition)["spec"]["versions"][0], "schema.openAPIV3Schema.properties.status");
}

void expect_in(const Object& schema, const Object& value, const std::string& path) {
  ASSERT_TRUE(schema.is_object()) << path << " is in no definition";
  if (value.is_object())
    for (const auto& [key, child] : value.items())
      expect_in(api::at(schema, "properties." + key), child, path + "." + key);
  if (value.is_array())
    for (const Object& item : value) expect_in(api::at(schema, "items"), item, path + "[]");
  const std::string type = api::text_at(schema, "type");
  const bool fits =
      (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
      (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
      (type == "integer" && value.is_number_integer());
  EXPECT_TRUE(fits) << path << " is " << value.type_name() << ", and by its definition " << type;
}

TEST(CrdStatusTest, PoolStatusMatchesTheDefinition) {
  PoolFacts facts;
  facts.pool = *api::parse_pool(
      {{"metadata", {{"name", "chat"}, {"namespace", "ml"}}},
       {"spec",
        Object::parse(
            R"({"memory": {"size": "1Gi", "hugepages": "2Mi"}, "backendRef": {"name": "b"}})")}});
  facts.pods.resize(1);
  facts.pods[0].uid = "u";
  facts.heard.answers["u"] = {.capacity_bytes = 10,
                              .used_bytes = 5,
                              .disk_capacity_bytes = 10,
                              .disk_used_bytes = 1,
                              .tokens_asked = 2,
                              .tokens_hit = 1,
                              .peers = LarderdAnswer::Peers{1, 1, 0, ""}};
  const Object status = pool_status(facts, Object(), "2026-01-01T00:00:00Z");
  ASSERT_TRUE(status.contains("memory") && status.contains("disk") && status.contains("hitRatio") &&
              status.contains("peers") && status.contains("backend"));
  expect_in(status_schema("larder.dev_cachepools.yaml"), status, "status");
}

TEST(CrdStatusTest, BackendStatusMatchesTheDefinition) {
  BackendFacts facts;
  facts.backend = *api::parse_backend(
      {{"metadata", {{"name", "b"}, {"namespace", "ml"}}}, {"spec", {{"endpoints", {"r:6379"}}}}});
  BackendSeen seen;
  seen.product = "Valkey";
  seen.version = "8.0.1";
  seen.role = "master";
  seen.mode = "standalone";
  seen.servers = 1;
  seen.used_bytes = 5;
  seen.max_bytes = 10;
  seen.ping_ns = 1'000'000;
  seen.findings = {{BackendFinding::Weight::kUnusable, "rights", "x"}};
  facts.seen = seen;
  const Object status = backend_status(facts, Object(), "2026-01-01T00:00:00Z");
  ASSERT_TRUE(status.contains("latency") && status.contains("lastError") &&
              status.contains("memory"));
  expect_in(status_schema("larder.dev_cachebackends.yaml"), status, "status");
}

}  // namespace
}  // namespace larder::reconcile
