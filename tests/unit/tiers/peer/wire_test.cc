// Requests and replies of peers: what one formats the other parses, and hostile ones are refused.
#include "sidecar/tiers/peer/wire.h"

#include <gtest/gtest.h>

#include <random>

namespace larder::peer {
namespace {

using tiers::ChunkFacts;
using tiers::ChunkKey;

ChunkKey spread_key(std::uint64_t n) {
  return {{7, 8}, {n * 0x9e3779b97f4a7c15ULL, n}, static_cast<std::uint16_t>(n % 3), 1};
}

net::Reply parse(const std::string& bytes) {
  net::ReplyScanner scanner;
  const auto span = std::as_bytes(std::span(bytes.data(), bytes.size()));
  EXPECT_EQ(scanner.scan(span), net::ReplyScanner::Found::kWhole);
  EXPECT_EQ(scanner.bytes(), bytes.size());
  return *net::ReplyParser().parse(span);
}

TEST(PeerWire, RequestsRoundTrip) {
  const Instance self{"chat", "0123456789abcdef", 42};
  const Request hello = *parse_request(parse(format_hello(self)));
  EXPECT_EQ(hello.kind, Request::Kind::kHello);
  EXPECT_EQ(hello.protocol, kProtocol);
  EXPECT_EQ(hello.other, self);
  std::vector<ChunkKey> keys;
  for (std::uint64_t n = 0; n < kMostKeys; ++n) keys.push_back(spread_key(n));
  const Request look = *parse_request(parse(format_look(keys, 1500)));
  EXPECT_EQ(look.kind, Request::Kind::kLook);
  EXPECT_EQ(look.hold_ms, 1500U);
  EXPECT_EQ(look.keys, keys);
  EXPECT_EQ(parse_request(parse(format_done(keys)))->keys, keys);
  const Request get = *parse_request(parse(format_get(spread_key(5), 99, 4096, kMostPartBytes)));
  EXPECT_EQ(get.keys, std::vector{spread_key(5)});
  EXPECT_EQ(get.generation, 99U);
  EXPECT_EQ(get.offset, 4096U);
  EXPECT_EQ(get.length, kMostPartBytes);
  EXPECT_EQ(parse_request(parse(format_ping()))->kind, Request::Kind::kPing);
}

TEST(PeerWire, RepliesRoundTrip) {
  const Instance self{"chat", "0123456789abcdef", 42};
  EXPECT_EQ(*parse_hello_reply(parse(hello_reply(self))), self);
  std::vector<std::optional<ChunkFacts>> chunks(1024);
  for (std::size_t i = 0; i < chunks.size(); i += 3)
    chunks[i] = ChunkFacts{i + 1, 8192ULL << i % 2, 4096, i * 7, 0};
  const auto told = parse_look_reply(parse(look_reply(chunks)).text, chunks.size());
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(*told, chunks);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    chunks[i] = ChunkFacts{i, (i + 1) << 12, 4096, i, 0};
  const auto unlike = parse_look_reply(parse(look_reply(chunks)).text, chunks.size());
  ASSERT_TRUE(unlike.ok()) << unlike.status().to_string();
  EXPECT_EQ(*unlike, chunks) << "a size for each chunk";
}

// covers F-272
TEST(PeerWire, OtherPoolOrProtocolIsReported) {
  EXPECT_EQ(parse_hello_reply(parse(error_reply("WRONGPOOL x"))).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(parse_hello_reply(parse(error_reply("NOPROTO x"))).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(parse_hello_reply(parse(error_reply("SECRET"))).status().text().find("SECRET"),
            std::string::npos);
  EXPECT_EQ(parse_hello_reply(parse("+OK\r\n")).status().code(), Code::kDataLoss);
}

// covers F-271
TEST(PeerWire, RequestsOutOfBoundsAreRefused) {
  const auto refused = [](std::vector<std::string_view> words) {
    return parse_request(parse(net::format_command(words))).status().code();
  };
  const std::string id(32, '0'), key(kKeyBytes, 'k'), keys((kMostKeys + 1) * kKeyBytes, 'k');
  EXPECT_EQ(refused({"FLUSHALL"}), Code::kUnsupported);
  EXPECT_EQ(refused({"PING", "x"}), Code::kUnsupported);
  EXPECT_EQ(refused({"HELLO", "3"}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"HELLO", "larder", "1", "a pool", "i", "1"}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"HELLO", "larder", "1", "pool", "i", "-1"}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"LOOK", "xyz", "1", key}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"LOOK", id, "2001", key}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"LOOK", id, "1", ""}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"LOOK", id, "1", std::string_view(key).substr(1)}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"LOOK", id, "1", keys}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"GET", id, key, "1", "0", "0"}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"GET", id, key, "1", "0", "4194305"}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"GET", id, key, "1", "-1", "1"}), Code::kInvalidArgument);
  EXPECT_EQ(refused({"DONE", id}), Code::kInvalidArgument);
}

// covers F-271
TEST(PeerWire, LookReplyOfWrongSizeIsRefused) {
  const auto code = [](const std::string& bulk, std::size_t keys) {
    return parse_look_reply(bulk, keys).status().code();
  };
  EXPECT_EQ(code("", 1), Code::kDataLoss);
  EXPECT_EQ(code(std::string(1, '\1'), 1), Code::kDataLoss) << "the facts are missing";
  const std::string none(3, '\0');  // a map, and no size
  EXPECT_EQ(code(none + '\0', 1), Code::kDataLoss) << "more than the map and the sizes";
  EXPECT_EQ(code('\1' + none.substr(1) + std::string(kFactsBytes, '\0'), 1), Code::kDataLoss)
      << "no size";
  EXPECT_EQ(code(std::string("\1\1\0", 3) + std::string(kSizeBytes + kFactsBytes, '\xff'), 1),
            Code::kDataLoss)
      << "an impossible size";
  EXPECT_EQ(code(std::string("\0\2\0", 3) + std::string(2 * kSizeBytes, '\1'), 1), Code::kDataLoss)
      << "more sizes than keys";
  EXPECT_EQ(code(none, 8), Code::kOk);
  EXPECT_EQ(code(none, 9), Code::kDataLoss);
}

TEST(PeerWire, RandomBytesAreHandled) {
  std::mt19937_64 random(34);
  for (int round = 0; round < 20'000; ++round) {
    std::string bulk(random() % 200, '\0');
    for (char& byte : bulk) byte = static_cast<char>(random());
    const std::size_t keys = 1 + random() % 40;
    const auto told = parse_look_reply(bulk, keys);
    if (!told.ok()) continue;
    EXPECT_EQ(told->size(), keys);
    for (const auto& facts : *told) EXPECT_TRUE(!facts || tiers::plausible(*facts));
  }
}

}  // namespace
}  // namespace larder::peer
