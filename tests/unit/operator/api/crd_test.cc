// The parsers read exactly the fields that the definitions in charts/larder/files/crds allow, with
// the same defaults and enumerations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"
#include "operator/api/names.h"
#include "tests/unit/operator/api/crd_schema.h"

namespace larder::api {
namespace {

struct Kind {
  std::string plural, name;
  std::vector<SpecField> (*fields)();
};

std::string shown(const SpecField& field) {
  std::string text = field.path + " " + field.type + " default '" + field.otherwise + "' of";
  for (const std::string& one : field.allowed) text += " " + one;
  return text;
}

std::vector<std::string> shown(std::vector<SpecField> fields) {
  std::ranges::sort(fields, {}, &SpecField::path);
  std::vector<std::string> texts;
  for (const SpecField& field : fields) texts.push_back(shown(field));
  return texts;
}

class CrdTest : public testing::TestWithParam<Kind> {
 protected:
  const Object crd_ = test::read_crd(GetParam().plural);
  const Object& schema_ = test::schema_of(crd_);
};

TEST_P(CrdTest, FieldsDefaultsAndEnumerationsMatchTheParser) {
  const std::vector<SpecField> parsed = GetParam().fields();
  std::set<std::string> whole;
  for (const SpecField& field : parsed)
    if (field.type == "object" || field.type == "array") whole.insert(field.path);
  ASSERT_GT(parsed.size(), 15U);
  EXPECT_THAT(shown(test::fields_of(schema_, whole)), testing::ElementsAreArray(shown(parsed)));
}

TEST_P(CrdTest, EveryFieldHasADescription) {
  EXPECT_THAT(test::undescribed(schema_), testing::IsEmpty());
}

TEST_P(CrdTest, NamesMatchTheCode) {
  EXPECT_EQ(text_at(crd_, "spec.group"), kGroup);
  EXPECT_EQ(text_at(crd_, "spec.names.kind"), GetParam().name);
  EXPECT_EQ(text_at(crd_, "spec.scope"), "Namespaced");
  EXPECT_EQ(name_of(crd_), GetParam().plural + "." + std::string(kGroup));
  EXPECT_EQ(crd_["spec"]["versions"][0]["name"], kVersion);
}

TEST_P(CrdTest, StatusIsASubresourceWithConditionsAsAMap) {
  EXPECT_TRUE(at(crd_["spec"]["versions"][0], "subresources.status").is_object());
  const Object& conditions = at(schema_, "properties.status.properties.conditions");
  EXPECT_EQ(text_at(conditions, "x-kubernetes-list-type"), "map");
  EXPECT_EQ(conditions["x-kubernetes-list-map-keys"], Object::array({"type"}));
  EXPECT_EQ(text_at(schema_, "properties.status.properties.observedGeneration.type"), "integer");
}

INSTANTIATE_TEST_SUITE_P(Kinds, CrdTest,
                         testing::Values(Kind{"cachepools", "CachePool", pool_fields},
                                         Kind{"cachebackends", "CacheBackend", backend_fields}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace larder::api
