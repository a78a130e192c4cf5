#include "operator/reconcile/subset.h"

#include <gtest/gtest.h>

namespace larder::reconcile {
namespace {

using api::Object;

std::string difference(const char* live, const char* wanted) {
  return first_difference(Object::parse(live), Object::parse(wanted)).value_or("");
}

TEST(SubsetTest, ForeignFieldsAreIgnored) {
  EXPECT_EQ(difference(R"({"a": 1, "b": {"c": 2, "d": 3}})", R"({"b": {"c": 2}})"), "");
  EXPECT_EQ(
      difference(R"({"containers": [{"name": "x"}, {"name": "larder", "image": "i", "port": 1}]})",
                 R"({"containers": [{"name": "larder", "image": "i"}]})"),
      "");
}

TEST(SubsetTest, DifferingPathIsReported) {
  EXPECT_EQ(difference(R"({"b": {"c": 2}})", R"({"b": {"c": 3}})"), "b.c");
  EXPECT_EQ(difference(R"({})", R"({"b": {"c": 3}})"), "b");
  EXPECT_EQ(difference(R"({"spec": {"containers": [{"name": "larder", "image": "i"}]}})",
                       R"({"spec": {"containers": [{"name": "larder", "image": "j"}]}})"),
            "spec.containers[larder].image");
  EXPECT_EQ(difference(R"({"volumes": []})", R"({"volumes": [{"name": "v"}]})"), "volumes[v]");
  EXPECT_EQ(difference(R"({"a": false})", R"({"a": true})"), "a");
  EXPECT_EQ(difference(R"({})", R"({"a": false})"), "a");
}

TEST(SubsetTest, ListsWithoutNamesAreComparedByPosition) {
  EXPECT_EQ(difference(R"({"args": ["a", "b"]})", R"({"args": ["a"]})"), "args");
  EXPECT_EQ(difference(R"({"args": ["b", "a"]})", R"({"args": ["a", "b"]})"), "args[0]");
  // The API server fills in the defaults of an item.
  EXPECT_EQ(difference(R"({"rules": [{"a": 1, "protocol": "TCP"}]})", R"({"rules": [{"a": 1}]})"),
            "");
}

TEST(SubsetTest, EmptyValuesAreEqual) {
  EXPECT_EQ(difference(R"({})", R"({"a": {}, "b": [], "c": null})"), "");
  EXPECT_EQ(difference(R"({"a": {"x": 1}})", R"({"a": {}})"), "");
  EXPECT_EQ(difference(R"({"a": "text"})", R"({"a": {}})"), "a");
}

TEST(SubsetTest, OnlyQuantityFieldsAreComparedByValue) {
  EXPECT_EQ(difference(R"({"limits": {"memory": "1Gi", "cpu": "500m"}})",
                       R"({"limits": {"memory": "1024Mi", "cpu": "0.5"}})"),
            "");
  EXPECT_EQ(difference(R"({"limits": {"cpu": "2"}})", R"({"limits": {"cpu": 2}})"), "");
  EXPECT_EQ(difference(R"({"emptyDir": {"sizeLimit": "1Gi"}})",
                       R"({"emptyDir": {"sizeLimit": "1024Mi"}})"),
            "");
  EXPECT_EQ(difference(R"({"limits": {"memory": "1Gi"}})", R"({"limits": {"memory": "1G"}})"),
            "limits.memory");
  // In the API server's form of a user's text: parts of a byte, exponents, signs.
  EXPECT_EQ(difference(R"({"limits": {"memory": "9771050598400m"}})",
                       R"({"limits": {"memory": "9.1Gi"}})"),
            "");
  EXPECT_EQ(difference(R"({"limits": {"memory": "29313151795200m"}})",
                       R"({"limits": {"memory": "27.3Gi"}})"),
            "");
  EXPECT_EQ(
      difference(R"({"limits": {"memory": "12e9"}})", R"({"limits": {"memory": 12000000000}})"),
      "");
  EXPECT_EQ(difference(R"({"limits": {"memory": "1Gi"}})", R"({"limits": {"memory": "+1Gi"}})"),
            "");
  EXPECT_EQ(difference(R"({"limits": {"memory": "9007199254740993"}})",
                       R"({"limits": {"memory": "9007199254741993"}})"),
            "limits.memory");
  EXPECT_EQ(difference(R"({"data": {"size": "1Gi"}})", R"({"data": {"size": "1024Mi"}})"),
            "data.size");
}

}  // namespace
}  // namespace larder::reconcile
