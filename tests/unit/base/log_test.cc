#include "sidecar/base/log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "sidecar/base/json_text.h"

namespace larder::base {
namespace {

constexpr std::string_view kTime = "2026-11-22T11:00:00.000Z";

TEST(LogTest, TextLineEndsWithItsFields) {
  EXPECT_EQ(log_line(LogFormat::kText, kTime, LogLevel::kInfo, "applied",
                     {{"namespace", "ml"}, {"name", "chat"}}),
            "2026-11-22T11:00:00.000Z info applied namespace=ml name=chat");
}

TEST(LogTest, LineBreaksAreEscaped) {
  const std::string line =
      log_line(LogFormat::kText, kTime, LogLevel::kError, "a\nb", {{"k", "c\r\nd"}});
  EXPECT_EQ(line.find_first_of("\r\n"), std::string::npos);
  const std::string json = log_line(LogFormat::kJson, kTime, LogLevel::kError,
                                    "a\nb\",\"level\":\"info", {{"k", "c\r\nd"}});
  EXPECT_EQ(json.find_first_of("\r\n"), std::string::npos);
  const auto parsed = nlohmann::json::parse(json);
  EXPECT_EQ(parsed["level"], "error");
  EXPECT_EQ(parsed["msg"], "a\nb\",\"level\":\"info");
  EXPECT_EQ(parsed["k"], "c\r\nd");
  EXPECT_EQ(parsed["ts"], kTime);
}

TEST(LogTest, NonAsciiNamesPassAndControlCharactersAreEscaped) {
  const auto text_line = [](std::string_view text) {
    return log_line(LogFormat::kText, "t", LogLevel::kInfo, text, {{"name", text}});
  };
  EXPECT_EQ(text_line("模型-größe"), "t info 模型-größe name=模型-größe");
  EXPECT_EQ(text_line("\x1b[2J"), "t info \\x1b[2J name=\\x1b[2J");
  EXPECT_EQ(text_line("\xc2\x9b"
                      "2J\x7f"),
            "t info \\xc2\\x9b2J\\x7f name=\\xc2\\x9b2J\\x7f");  // CSI in one character
  EXPECT_EQ(text_line("a\xff"), "t info a\\xff name=a\\xff");
  EXPECT_EQ(text_line("a\nb"), "t info a b name=a b");
  EXPECT_EQ(json_text("\xc2\x9b"
                      "a\xe2\x80\xae"),
            "\"\\u009ba\\u202e\"");
}

TEST(LogTest, AnyBytesYieldValidJson) {
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 12, '\0');
    for (char& c : text) c = static_cast<char>(random());
    ASSERT_NO_THROW(std::ignore = nlohmann::json::parse(json_text(text))) << "round " << round;
  }
}

TEST(LogTest, ValidTextIsUnchanged) {
  for (const std::string text :
       {"plain", "größe", "日本", "\xf0\x9f\x98\x80", "tab\tquote\"back\\slash"})
    EXPECT_EQ(nlohmann::json::parse(json_text(text)), text);
  // overlong
  EXPECT_EQ(nlohmann::json::parse(json_text("a\xc0\xaf")), "a\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace larder::base
