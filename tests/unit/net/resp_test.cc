#include "sidecar/net/resp.h"

#include <gtest/gtest.h>

#include <array>

namespace larder::net {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A scanner's finding, given a byte more each time; the finding must not depend on the pieces.
ReplyScanner::Found scanned(std::string_view text, std::size_t* length = nullptr) {
  ReplyScanner whole, pieces;
  const ReplyScanner::Found found = whole.scan(bytes_of(text));
  ReplyScanner::Found last = ReplyScanner::Found::kPart;
  for (std::size_t size = 0; size <= text.size() && last == ReplyScanner::Found::kPart; ++size)
    last = pieces.scan(bytes_of(text.substr(0, size)));
  EXPECT_EQ(last, found) << text;
  EXPECT_TRUE(found != ReplyScanner::Found::kWhole || whole.bytes() == pieces.bytes()) << text;
  if (length != nullptr) *length = whole.bytes();
  return found;
}

TEST(RespTest, CommandsAreFormatted) {
  EXPECT_EQ(format_command(std::array<std::string_view, 2>{"GET", "a b"}),
            "*2\r\n$3\r\nGET\r\n$3\r\na b\r\n");
  const Around around = format_around(std::array<std::string_view, 2>{"SET", "k"}, 12,
                                      std::array<std::string_view, 2>{"PX", "10"});
  EXPECT_EQ(around.before, "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\n");
  EXPECT_EQ(around.after, "\r\n$2\r\nPX\r\n$2\r\n10\r\n");
  const Around bare = format_around(std::array<std::string_view, 2>{"SET", "k"}, 3, {});
  EXPECT_EQ(bare.before + "abc" + bare.after,
            format_command(std::array<std::string_view, 3>{"SET", "k", "abc"}));
}

TEST(RespTest, CompleteRepliesEndAtTheirLastByte) {
  for (const std::string_view reply :
       {"+OK\r\n", "-ERR what\r\n", ":-12\r\n", "$0\r\n\r\n", "$-1\r\n", "$5\r\na\r\nbc\r\n",
        "*0\r\n", "*-1\r\n", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n:3\r\n",
        "*2\r\n*0\r\n*1\r\n*1\r\n+x\r\n", "+\r\n"}) {
    std::size_t length = 0;
    EXPECT_EQ(scanned(std::string(reply) + "+NEXT\r\n", &length), ReplyScanner::Found::kWhole)
        << reply;
    EXPECT_EQ(length, reply.size()) << reply;
    for (std::size_t cut = 0; cut < reply.size(); ++cut)
      EXPECT_EQ(scanned(reply.substr(0, cut)), ReplyScanner::Found::kPart)
          << reply << " cut at " << cut;
  }
}

TEST(RespTest, MalformedOrTooLargeReplyIsAnError) {
  const std::string deep = "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+x\r\n", line(kMaxLineBytes + 8, 'a');
  const std::string many_arrays = [] {
    std::string text = "*16000\r\n";
    return text + "*16000\r\n";
  }();
  for (const std::string& reply :
       {std::string("?\r\n"), std::string("\r\n"), std::string("x\n"), std::string("%1\r\n"),
        std::string("_\r\n"), std::string("$-2\r\n"), std::string("$x\r\n"), std::string("$\r\n"),
        std::string("$99999999999999999999\r\n"), std::string("$70000\r\n"),
        std::string("$2\r\nabcd"), std::string("*99999999\r\n"), std::string("*-7\r\n"),
        std::string(":\r\n"), std::string(":1x\r\n"), std::string("+a\nb\r\n"), "+" + line, deep,
        many_arrays})
    EXPECT_EQ(scanned(reply), ReplyScanner::Found::kWrong) << reply.substr(0, 40);
}

TEST(RespTest, WholeReplyIsBounded) {
  std::string text = "*1000\r\n";
  for (int i = 0; i < 1000; ++i) text += "$2000\r\n" + std::string(2000, 'x') + "\r\n";
  ReplyScanner scanner;
  EXPECT_EQ(scanner.scan(bytes_of(text)), ReplyScanner::Found::kWrong);
}

TEST(RespTest, RepliesAreParsed) {
  ReplyParser parser;
  const Result<Reply> reply =
      parser.parse(bytes_of("*3\r\n$2\r\na\n\r\n:-5\r\n*2\r\n$-1\r\n-ERR x\r\n"));
  ASSERT_TRUE(reply.ok());
  ASSERT_EQ(reply->elements.size(), 3U);
  EXPECT_EQ(reply->elements[0].text, "a\n");
  EXPECT_EQ(reply->elements[1].integer, -5);
  EXPECT_EQ(reply->elements[2].elements[0].kind, Reply::Kind::kNil);
  EXPECT_EQ(reply->elements[2].elements[1].kind, Reply::Kind::kError);
  // A reply that only one of the two parsers takes is refused, and no byte of the reply is left for
  // the next.
  EXPECT_FALSE(parser.parse(bytes_of(":007\r\n")).ok());
  EXPECT_FALSE(parser.parse(bytes_of("+A\r\n+B\r\n")).ok());
  EXPECT_EQ(parser.parse(bytes_of("+C\r\n"))->text, "C");
}

}  // namespace
}  // namespace larder::net
