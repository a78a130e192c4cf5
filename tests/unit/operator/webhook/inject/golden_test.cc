// Pods in, pods out: tests/golden/inject. NAME.in.yaml gives NAME.out.yaml; LARDER_TEST_WRITE_GOLDEN=1 writes the latter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

#include "operator/api/names.h"
#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"
#include "tests/unit/text_file.h"

namespace larder::test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(REPOSITORY_ROOT) / "tests/golden/inject";
constexpr std::string_view kIn = ".in.yaml";

std::vector<std::string> names() {
  std::set<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder))
    if (const std::string file = entry.path().filename(); file.ends_with(kIn))
      found.insert(file.substr(0, file.size() - kIn.size()));
  return {found.begin(), found.end()};
}

class InjectGolden : public testing::TestWithParam<std::string> {};

TEST_P(InjectGolden, GivesWhatIsWritten) {
  const InjectionCase one = injection_case(text_of(kFolder / (GetParam() + std::string(kIn))));
  const webhook::Injection injection = one.inject();
  const api::Object after = patched(one.pod, injection.patch);
  const bool passed_by = !injection.passed_by.empty();
  const std::string head = passed_by ? "# passed by\n" : injection.refused.empty() ? "# injected\n" : "# left alone\n";
  const std::string text = head + to_yaml(after);
  ASSERT_EQ(from_yaml(text).front(), after) << "as YAML it reads differently";
  const fs::path out = kFolder / (GetParam() + ".out.yaml");
  if (std::getenv("LARDER_TEST_WRITE_GOLDEN") != nullptr) std::ofstream(out) << text;
  EXPECT_EQ(text, text_of(out)) << "LARDER_TEST_WRITE_GOLDEN=1 writes it anew: read what changed";
}

TEST_P(InjectGolden, TwiceIsOnce) {
  const InjectionCase one = injection_case(text_of(kFolder / (GetParam() + std::string(kIn))));
  const webhook::Injection first = one.inject();
  const webhook::Injection second = one.inject(patched(one.pod, first.patch));
  EXPECT_EQ(second.patch, api::Object::array());
  EXPECT_EQ(second.refused, first.refused);
}

// What is left alone keeps everything and says why; the sentence has what to do behind a semicolon.
TEST_P(InjectGolden, SaysWhyItWasLeftAlone) {
  const InjectionCase one = injection_case(text_of(kFolder / (GetParam() + std::string(kIn))));
  const webhook::Injection injection = one.inject();
  EXPECT_EQ(injection.refused.empty(), injection.kind == webhook::Refusal::kNone);
  if (injection.refused.empty()) return;
  EXPECT_EQ(injection.refused.starts_with("there is no CachePool"), injection.kind == webhook::Refusal::kNoPool);
  EXPECT_NE(injection.refused.find("; "), std::string::npos) << injection.refused;
  api::Object after = patched(one.pod, injection.patch);
  EXPECT_EQ(api::annotation(after, api::kNotInjectedAnnotation), injection.refused);
  api::Object expected = one.pod;
  expected["metadata"]["annotations"][std::string(api::kNotInjectedAnnotation)] = injection.refused;
  EXPECT_EQ(after, expected);
}

INSTANTIATE_TEST_SUITE_P(Pods, InjectGolden, testing::ValuesIn(names()), [](const auto& one) {
  std::string name = one.param;
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
});

TEST(InjectGoldens, ThereAreEnough) {
  EXPECT_GE(names().size(), 60u);
}

}  // namespace
}  // namespace larder::test
