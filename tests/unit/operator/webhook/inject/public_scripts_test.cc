// tests/golden/inject/public_scripts.yaml in real shells: an engine that is served gets its old
// words and Larder's connector, alone or behind its own one.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/operator/webhook/inject/golden_case.h"
#include "tests/unit/operator/webhook/inject/real_shell.h"

namespace larder::test {
namespace {

using api::Object;

constexpr const char* kRows = "public-";  // names of the rows of that table

// Takes the last --kv-transfer-config out of an engine's words; null: there is none.
Object take_connector(std::vector<std::string>& argv) {
  for (std::size_t at = argv.size(); at-- > 0;) {
    if (argv[at] != "--kv-transfer-config" && argv[at] != "--kv_transfer_config") continue;
    if (at + 1 >= argv.size()) return {};
    Object config = Object::parse(argv[at + 1]);
    argv.erase(argv.begin() + static_cast<std::ptrdiff_t>(at),
               argv.begin() + static_cast<std::ptrdiff_t>(at) + 2);
    return config;
  }
  return {};
}

void expect_larder_behind(const Object& own, const Object& config) {
  if (own.is_null()) {
    EXPECT_EQ(api::text_at(config, "kv_connector"), "LarderConnector");
    return;
  }
  const Object& all = api::at(config, "kv_connector_extra_config.connectors");
  ASSERT_EQ(all.size(), 2u) << config;
  EXPECT_EQ(all[0]["kv_connector"], own["kv_connector"]);
  EXPECT_EQ(all[1]["kv_connector"], "LarderConnector");
}

void expect_served(const EngineStart& before, EngineStart after) {
  std::vector<std::string> old = before.argv;
  const Object own = take_connector(old), config = take_connector(after.argv);
  EXPECT_EQ(after.argv, old);
  expect_larder_behind(own, config);
  // A script may put its own folder in front.
  EXPECT_NE((":" + after.python_path).find(":/larder/python"), std::string::npos)
      << after.python_path;
}

// covers F-239, F-306
TEST(PublicScripts, EnginesGetTheirArgumentsAndTheConnector) {
  RealShell shell;
  int served = 0;
  for (const std::string& name : golden_names(REPOSITORY_ROOT)) {
    if (!name.starts_with(kRows)) continue;
    SCOPED_TRACE(name);
    const GoldenCase golden = golden_case(REPOSITORY_ROOT, name);
    const webhook::Injection injection = golden.one.inject();
    if (!injection.refused.empty()) continue;
    const auto before = shell.run(golden.one.pod["spec"]["containers"][0]);
    const Object pod = patched(golden.one.pod, injection.patch);
    const auto after = shell.run(pod["spec"]["containers"][0]);
    ASSERT_EQ(after.size(), before.size()) << pod.dump(1);
    for (std::size_t at = 0; at < after.size(); ++at) expect_served(before[at], after[at]);
    served += !before.empty();
  }
  EXPECT_GE(served, 25);
}

}  // namespace
}  // namespace larder::test
