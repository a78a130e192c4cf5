#include "shim/base/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace larder {
namespace {

bool is_valid(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

TEST(Utf8Test, ValidTextPasses) {
  for (const std::string text :
       {"", "plain", "größe", "日本語", "עברית", "🙂", "tab-less \\ \" ?"})
    EXPECT_EQ(clean_text(text), text);
}

TEST(Utf8Test, ControlsAndInvalidBytesAreEscaped) {
  EXPECT_EQ(clean_text("\x1b]0;x\x07"), "\\x1b]0;x\\x07");
  EXPECT_EQ(clean_text("\xc2\x85"), "\\xc2\\x85");           // NEL
  EXPECT_EQ(clean_text("\xe2\x80\xa8"), "\\xe2\\x80\\xa8");  // a line separator
  // from right to left from here on
  EXPECT_EQ(clean_text("\xe2\x80\xae"), "\\xe2\\x80\\xae");
  EXPECT_EQ(clean_text("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(clean_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(clean_text("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond the last
  EXPECT_EQ(clean_text("a\xe6\xa8"), "a\\xe6\\xa8");                  // torn
}

TEST(Utf8Test, CutFallsBetweenCharacters) {
  EXPECT_EQ(cut_text("größe", 3), "gr");
  EXPECT_EQ(cut_text("größe", 4), "grö");
  EXPECT_EQ(cut_text("größe", 100), "größe");
  EXPECT_EQ(cut_text("模型", 5), "模");
  EXPECT_EQ(cut_text("模型", 2), "");
  EXPECT_EQ(cut_text(std::string(9, '\x80'), 5).size(), 5U) << "no text at all";
  EXPECT_EQ(clean_text("größe", 3), "gr");
  EXPECT_EQ(clean_text("a\x1b", 4), "a");
}

TEST(Utf8Test, AnyBytesYieldBoundedStableText) {
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 40, '\0');
    for (char& c : text)
      c = static_cast<char>(random() % 3 == 0 ? random()
                                              : "\xc2\x9b\xe2\x80\xae\xf0"
                                                "ab"[random() % 8]);
    const std::size_t most = random() % 60;
    const std::string clean = clean_text(text, most);
    ASSERT_LE(clean.size(), most);
    ASSERT_TRUE(is_valid(clean)) << "round " << round;
    ASSERT_EQ(clean_text(clean), clean) << "round " << round;
    ASSERT_LE(cut_text(text, most).size(), most);
    ASSERT_TRUE(!is_valid(text) || is_valid(cut_text(text, most))) << "round " << round;
  }
}

}  // namespace
}  // namespace larder
