#include "operator/webhook/inject/json_patch.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::webhook {
namespace {

using api::Object;

Object json(const char* text) {
  return Object::parse(text);
}

void expect_patch(const char* before, const char* after, const char* patch) {
  EXPECT_EQ(diff(json(before), json(after)), json(patch));
  EXPECT_EQ(test::patched(json(before), json(patch)), json(after));
}

TEST(JsonPatch, EqualValuesHaveAnEmptyPatch) {
  expect_patch(R"({"a":[1,{"b":null}]})", R"({"a":[1,{"b":null}]})", "[]");
}

TEST(JsonPatch, AddsMissingParentsAsAWhole) {
  expect_patch(R"({"metadata":{}})", R"({"metadata":{"annotations":{"x/y":"z"}}})",
               R"([{"op":"add","path":"/metadata/annotations","value":{"x/y":"z"}}])");
}

TEST(JsonPatch, EscapesKeys) {
  expect_patch(R"({"a":{"b":1}})", R"({"a":{"b":1,"c/d~e":2}})",
               R"([{"op":"add","path":"/a/c~1d~0e","value":2}])");
}

TEST(JsonPatch, PutsElementsInFront) {
  expect_patch(R"([3])", R"([1,2,3])",
               R"([{"op":"add","path":"/0","value":1},{"op":"add","path":"/1","value":2}])");
}

TEST(JsonPatch, ChangesAnElementAndAppends) {
  expect_patch(
      R"([{"name":"a"}])", R"([{"name":"a","env":[]},{"name":"b"}])",
      R"([{"op":"add","path":"/0/env","value":[]},{"op":"add","path":"/1","value":{"name":"b"}}])");
}

TEST(JsonPatch, RemovesFromTheEnd) {
  expect_patch(R"([1,2,3,4])", R"([1,4])",
               R"([{"op":"remove","path":"/2"},{"op":"remove","path":"/1"}])");
}

TEST(JsonPatch, ReplacesValuesOfChangedType) {
  expect_patch(R"({"a":null})", R"({"a":[]})", R"([{"op":"replace","path":"/a","value":[]}])");
  expect_patch("1", R"("1")", R"([{"op":"replace","path":"","value":"1"}])");
}

Object random_value(std::mt19937_64& random, int depth) {
  const auto below = [&random](std::size_t count) { return random() % count; };
  switch (below(depth > 0 ? 6 : 4)) {
    case 0: return nullptr;
    case 1: return below(3);
    case 2: return std::string(below(2), '~') + "/";
    case 3: return below(2) == 0;
    case 4: {
      Object list = Object::array();
      for (std::size_t count = below(5); count-- > 0;)
        list.push_back(random_value(random, depth - 1));
      return list;
    }
    default: {
      Object map = Object::object();
      for (std::size_t count = below(5); count-- > 0;)
        map[std::string(1, "ab/~"[below(4)])] = random_value(random, depth - 1);
      return map;
    }
  }
}

TEST(JsonPatch, PatchTransformsAnyValueIntoAnother) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    const Object before = random_value(random, 4), after = random_value(random, 4);
    ASSERT_EQ(test::patched(before, diff(before, after)), after) << before << " -> " << after;
  }
}

}  // namespace
}  // namespace larder::webhook
