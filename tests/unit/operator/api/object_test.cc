#include "operator/api/object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::api {
namespace {

using testing::HasSubstr;

TEST(ParseJson, ReadsValidTextAndLocatesErrors) {
  EXPECT_EQ(parse_json(R"({"a":[1,"\u00e9"]})")->at("a").at(1), "é");
  EXPECT_THAT(parse_json("{\"a\":1").status().text(), HasSubstr("at byte 7"));
  EXPECT_FALSE(parse_json("").ok());
  EXPECT_FALSE(parse_json("{} x").ok()) << "rubbish behind it";
  EXPECT_FALSE(parse_json("\"\\ud800\"").ok()) << "half a surrogate pair";
  EXPECT_FALSE(parse_json("\"\xff\"").ok()) << "no UTF-8";
  EXPECT_FALSE(parse_json("1e999").ok()) << "too large for a number";
}

TEST(ParseJson, IsBoundedInDepthAndBytes) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(kMostDepth)).ok());
  EXPECT_THAT(parse_json(nested(kMostDepth + 1)).status().text(), HasSubstr("deeper than 64"));
  EXPECT_FALSE(parse_json(nested(2'000'000)).ok());
  EXPECT_TRUE(parse_json("\"" + std::string(500, '[') + "\\\"" + std::string(500, '{') + "\"").ok())
      << "brackets in a string do not count";
  EXPECT_EQ(parse_json(std::string(kMostBytes + 1, ' ')).status().code(), Code::kOutOfRange);
}

TEST(Accessors, ReturnEmptyValuesForOtherTypes) {
  const Object object = *parse_json(
      R"({"a":{"b":{"c":"text","n":7,"t":true,"u":18446744073709551615}},"metadata":{"name":"x",)"
      R"("labels":{"l.dev/k":"v","n":1}},"s":"t"})");
  EXPECT_EQ(text_at(object, "a.b.c"), "text");
  EXPECT_EQ(number_at(object, "a.b.n"), 7);
  EXPECT_TRUE(truth_at(object, "a.b.t"));
  EXPECT_EQ(number_at(object, "a.b.u", -3), -3) << "above the range of a signed number";
  for (const char* path : {"", "a", "a.b", "a.b.n.x", "s.t", "nothing.at.all", "a..b", "."}) {
    EXPECT_EQ(text_at(object, path), "") << path;
    EXPECT_EQ(number_at(object, path, -3), -3) << path;
    EXPECT_TRUE(truth_at(object, path, true)) << path;
  }
  EXPECT_EQ(name_of(object), "x");
  EXPECT_EQ(namespace_of(object), "");
  EXPECT_EQ(label(object, "l.dev/k"), "v");
  EXPECT_EQ(label(object, "n"), std::nullopt);
  EXPECT_EQ(annotation(object, "l.dev/k"), std::nullopt);
  EXPECT_EQ(name_of(Object("text")), "");
}

TEST(Quantity, MatchesKubernetes) {
  const std::pair<const char*, std::uint64_t> good[] = {
      {"0", 0},
      {"-0", 0},
      {"1", 1},
      {"8Gi", 8ULL << 30},
      {"0.5Gi", 1ULL << 29},
      {".5Gi", 1ULL << 29},
      {"1.Gi", 1ULL << 30},
      {"+1Gi", 1ULL << 30},
      {"0008Gi", 8ULL << 30},
      {"500M", 500'000'000},
      {"1k", 1000},
      {"3000m", 3},
      {"4000000u", 4},
      {"5000000000n", 5},
      {"1e9", 1'000'000'000},
      {"1E9", 1'000'000'000},
      {"1e+09", 1'000'000'000},
      {"1.5e3", 1500},
      {"12e-1", 2},
      {"0.5Ti", 1ULL << 39},
      {"1.5Ti", 3ULL << 39},
      {"1E", 1'000'000'000'000'000'000},
      {"7Ei", 7ULL << 60},
      {"8589934592000000000n", 8'589'934'592},
      {"9223372036854775807", 9'223'372'036'854'775'807}};
  for (const auto& [text, bytes] : good) {
    ASSERT_TRUE(quantity_bytes(text).ok()) << text << quantity_bytes(text).status().text();
    EXPECT_EQ(*quantity_bytes(text), bytes) << text;
  }
  EXPECT_EQ(*quantity_milli("100m"), 100U);
  EXPECT_EQ(*quantity_milli("0.5"), 500U);
  EXPECT_EQ(*quantity_milli("1e1"), 10'000U);
  EXPECT_EQ(*quantity_milli("4"), 4000U);
}

// As Kubernetes does with a limit of memory: 1.1Gi is no whole number of bytes.
TEST(Quantity, FractionOfAByteRoundsUp) {
  EXPECT_EQ(*quantity_bytes("1.1Gi"), 1'181'116'007U);
  EXPECT_EQ(*quantity_bytes("1.5"), 2U);
  EXPECT_EQ(*quantity_bytes("100m"), 1U);
  EXPECT_EQ(*quantity_bytes("1e-99"), 1U);
}

TEST(Quantity, AcceptsNumbers) {
  EXPECT_EQ(quantity_text(*parse_json("8589934592")), "8589934592");
  EXPECT_EQ(*quantity_bytes(quantity_text(*parse_json("1e9"))), 1'000'000'000U);
  EXPECT_EQ(quantity_text(*parse_json("\"8Gi\"")), "8Gi");
  for (const char* other : {"null", "true", "{}", "[]"})
    EXPECT_EQ(quantity_text(*parse_json(other)), "") << other;
}

TEST(Quantity, InvalidQuantityIsRefusedWithAReason) {
  const std::pair<const char*, const char*> bad[] = {
      {"8GB", "'8GB' is no size"},   {"", "is no size"},
      {"Gi", "is no size"},          {"-1Gi", "is negative"},
      {"1.2.3", "is no size"},       {"8 Gi", "is no size"},
      {"9999999999Ei", "too large"}, {"8Ei", "is too large"},
      {".", "is no size"},           {"+", "is no size"},
      {"+-1", "is no size"},         {"1e", "is no size"},
      {"1e+-3", "is no size"},       {"1e9Ki", "is no size"},
      {"1e999", "is no size"},       {"1e99", "is too large"},
      {"1ki", "is no size"},         {"123456789012345678901", "too many digits"}};
  for (const auto& [text, why] : bad) {
    EXPECT_EQ(quantity_bytes(text).status().code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(quantity_bytes(text).status().text(), HasSubstr(why)) << text;
  }
}

}  // namespace
}  // namespace larder::api
