#include "operator/webhook/inject/connector_config.h"

#include <gtest/gtest.h>

#include "operator/api/object.h"

namespace larder::webhook {
namespace {

using api::Object;

Object composed(const std::string& existing, int chunk_tokens = 0) {
  const auto config = composed_config(existing, chunk_tokens);
  return config.ok() ? Object::parse(*config) : Object(config.status().text());
}

TEST(ConnectorConfig, MatchesTheConnectorSettings) {
  EXPECT_EQ(connector_config(0),
            R"({"kv_connector":"LarderConnector","kv_connector_module_path":"larder.vllm",)"
            R"("kv_role":"kv_both"})");
  EXPECT_EQ(Object::parse(connector_config(512))["kv_connector_extra_config"],
            Object({{"chunk_tokens", 512}}));
}

// The present one is first: vLLM loads from the first one with a hit.
TEST(ConnectorConfig, IsComposedWithAnotherConnector) {
  const Object config =
      composed(R"({"kv_connector":"NixlConnector","kv_role":"kv_producer","kv_port":5,)"
               R"("kv_connector_extra_config":{"a":1}})",
               64);
  EXPECT_EQ(config["kv_connector"], "MultiConnector");
  EXPECT_EQ(config["kv_port"], 5);
  const Object& children = config["kv_connector_extra_config"]["connectors"];
  ASSERT_EQ(children.size(), 2u);
  EXPECT_EQ(children[0],
            Object::parse(R"({"kv_connector":"NixlConnector","kv_role":"kv_producer","kv_port":5,)"
                          R"("kv_connector_extra_config":{"a":1}})"));
  EXPECT_EQ(children[1].dump(), connector_config(64));
}

// vLLM's MultiConnector passes engine_id to its children by itself, and fails on a child with its
// own.
TEST(ConnectorConfig, KeepsTheEngineIdOutside) {
  const Object config = composed(R"({"kv_connector":"X","kv_role":"kv_both","engine_id":"e"})");
  EXPECT_EQ(config["engine_id"], "e");
  EXPECT_FALSE(config["kv_connector_extra_config"]["connectors"][0].contains("engine_id"));
}

// A producer alone would not hold freed blocks back while Larder loads into the blocks; and a
// failed load must be recomputed.
TEST(ConnectorConfig, MakesTheEngineLoadSafely) {
  for (const char* existing : {R"({"kv_connector":"X","kv_role":"kv_producer"})",
                               R"({"kv_connector":"MultiConnector","kv_role":"kv_producer",)"
                               R"("kv_connector_extra_config":{"connectors":[]}})"}) {
    EXPECT_EQ(composed(existing)["kv_role"], "kv_both");
    EXPECT_EQ(composed(existing)["kv_load_failure_policy"], "recompute");
  }
}

TEST(ConnectorConfig, KeepsAForeignModulePath) {
  const Object config =
      composed(R"({"kv_connector":"C","kv_connector_module_path":"m","kv_role":"kv_both"})");
  EXPECT_FALSE(config.contains("kv_connector_module_path"));
  EXPECT_EQ(config["kv_connector_extra_config"]["connectors"][0]["kv_connector_module_path"], "m");
}

TEST(ConnectorConfig, WithLarderIsUnchanged) {
  for (
      const std::string existing :
      {R"({ "kv_connector": "LarderConnector" })",
       R"({"kv_connector":"MultiConnector",)"
       R"("kv_connector_extra_config":{"connectors":[{"kv_connector":"LarderConnector"}]}})",
       R"({"kv_connector":"MultiConnector","kv_connector_extra_config":{"connectors":[{"kv_connector":"X"},
            {"kv_connector":"MultiConnector","kv_connector_extra_config":{"connectors":[{"kv_connector":"LarderConnector"}]}}]}})"})
    EXPECT_EQ(*composed_config(existing, 64), existing);
}

TEST(ConnectorConfig, ReportsConfigurationsThatCannotBeComposed) {
  for (const char* existing : {"", "{", "[]", "{}", R"({"kv_connector":1})", "$(CONFIG)",
                               R"({"kv_connector":"X","n":80m})"})
    EXPECT_NE(composed_config(existing, 0).status().text().find("is not a readable JSON object"),
              std::string::npos)
        << existing;
  EXPECT_NE(composed_config(R"({"kv_connector":"X","kv_load_failure_policy":"fail"})", 0)
                .status()
                .text()
                .find("use recompute"),
            std::string::npos);
  EXPECT_NE(
      composed_config(R"({"kv_connector":"MultiConnector"})", 0).status().text().find("connectors"),
      std::string::npos);
}

}  // namespace
}  // namespace larder::webhook
