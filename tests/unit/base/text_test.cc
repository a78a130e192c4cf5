#include "sidecar/base/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace larder::base {
namespace {

TEST(TextTest, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(12345678), "12,345,678");
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(5ULL << 30), "5.0 GiB");
  EXPECT_EQ(bytes_text(1536ULL << 30), "1.5 TiB");
  EXPECT_EQ(seconds_text(0.0504), "50 ms");
  EXPECT_EQ(seconds_text(21.44), "21.4 s");
  EXPECT_EQ(seconds_text(3599), "59 min");
  EXPECT_EQ(seconds_text(8040), "2 h 14 min");
  EXPECT_EQ(percent_text(15, 16), "93.8%");
  EXPECT_EQ(percent_text(0, 0), "-");
  EXPECT_EQ(bar(1, 4, 8), "[##......]");
  EXPECT_EQ(bar(5, 4, 8), "[########]");
  EXPECT_EQ(bar(0, 0, 3), "[...]");
}

TEST(TextTest, ImpossibleTimesAreClamped) {
  EXPECT_EQ(seconds_text(1e300), seconds_text(1e12));
  EXPECT_EQ(seconds_text(std::numeric_limits<double>::infinity()), seconds_text(1e12));
  EXPECT_EQ(seconds_text(-1e300), "0 ms");
  EXPECT_EQ(seconds_text(std::numeric_limits<double>::quiet_NaN()), "0 ms");
}

TEST(TextTest, ControlCharactersInNamesAreEscaped) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a\\x1b[2Jb\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
}

TEST(TextTest, Columns) {
  EXPECT_EQ(column("ab", 4), "ab  ");
  EXPECT_EQ(column("abcdef", 5), "ab...");
  EXPECT_EQ(column("größe", 6), "größe ");
  EXPECT_EQ(column("模型模型模型", 5), "模型...");
  EXPECT_EQ(cut("größe", 3), "grö");
  EXPECT_EQ(cut("größe", 9), "größe");
}

}  // namespace
}  // namespace larder::base
