// Pods in, pods out: tests/golden/inject. LARDER_TEST_WRITE_GOLDEN=1 writes the results anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

#include "operator/api/names.h"
#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/inject/golden_case.h"
#include "tests/unit/text_file.h"

namespace larder::test {
namespace {

using api::Object;
using Form = GoldenCase::Form;

constexpr const char* kOutOfDate =
    "LARDER_TEST_WRITE_GOLDEN=1 writes the result anew: read the difference";

bool writes() {
  return std::getenv("LARDER_TEST_WRITE_GOLDEN") != nullptr;
}

std::string head_of(const webhook::Injection& injection) {
  if (!injection.passed_by.empty()) return "# passed by\n";
  return injection.refused.empty() ? "# injected\n" : "# left alone\n";
}

void expect_file(const GoldenCase& golden, const std::string& text, const Object& object) {
  ASSERT_EQ(from_yaml(text).front(), object) << "as YAML it reads differently";
  if (writes()) std::ofstream(golden.result) << text;
  EXPECT_EQ(text, text_of(golden.result)) << kOutOfDate;
}

void expect_row(const GoldenCase& golden, const Object& result) {
  if (writes()) write_row_result(golden.result, golden.name, result);
  EXPECT_EQ(result, row_result(golden.result, golden.name)) << kOutOfDate;
}

class InjectGolden : public testing::TestWithParam<std::string> {
 protected:
  const GoldenCase golden_ = golden_case(REPOSITORY_ROOT, GetParam());
};

TEST_P(InjectGolden, MatchesTheGolden) {
  const Object& pod = golden_.one.pod;
  const webhook::Injection injection = golden_.one.inject();
  if (golden_.form == Form::kWhole) {
    const Object after = patched(pod, injection.patch);
    return expect_file(golden_, head_of(injection) + to_yaml(after), after);
  }
  const Object result = result_of(pod, injection, usual_golden(REPOSITORY_ROOT));
  if (golden_.form == Form::kRow) return expect_row(golden_, result);
  expect_file(golden_, head_of(injection) + to_yaml(result, kGoldenColumns), result);
}

TEST_P(InjectGolden, SecondInjectionChangesNothing) {
  const webhook::Injection first = golden_.one.inject();
  const webhook::Injection second = golden_.one.inject(patched(golden_.one.pod, first.patch));
  EXPECT_EQ(second.patch, Object::array());
  EXPECT_EQ(second.refused, first.refused);
}

// A pod left alone keeps everything and has the reason; the remedy stands behind a semicolon of the
// sentence.
TEST_P(InjectGolden, RefusalHasAReason) {
  const webhook::Injection injection = golden_.one.inject();
  EXPECT_EQ(injection.refused.empty(), injection.kind == webhook::Refusal::kNone);
  if (!injection.passed_by.empty()) {
    EXPECT_EQ(injection.patch, Object::array());
  }
  if (injection.refused.empty()) return;
  EXPECT_EQ(injection.refused.starts_with("there is no CachePool"),
            injection.kind == webhook::Refusal::kNoPool);
  EXPECT_NE(injection.refused.find("; "), std::string::npos) << injection.refused;
  const Object after = patched(golden_.one.pod, injection.patch);
  EXPECT_EQ(api::annotation(after, api::kNotInjectedAnnotation), injection.refused);
  Object expected = golden_.one.pod;
  expected["metadata"]["annotations"][std::string(api::kNotInjectedAnnotation)] = injection.refused;
  EXPECT_EQ(after, expected);
}

INSTANTIATE_TEST_SUITE_P(Pods, InjectGolden, testing::ValuesIn(golden_names(REPOSITORY_ROOT)),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace_if(
                               name, [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

TEST(InjectGoldens, CoverEnoughPods) {
  const std::vector<std::string> all = golden_names(REPOSITORY_ROOT);
  EXPECT_GE(all.size(), 140u);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size())
      << "two cases have one name";
}

}  // namespace
}  // namespace larder::test
