#include "operator/k8s/watch_decoder.h"

#include <gtest/gtest.h>

#include <random>

namespace larder::k8s {
namespace {

std::string event(const std::string& type, const std::string& name,
                  const std::string& version = "1") {
  return R"({"type":")" + type + R"(","object":{"kind":"Pod","metadata":{"name":")" + name +
         R"(","resourceVersion":")" + version + "\"}}}\n";
}

struct Decoded {
  std::vector<std::string> names;
  Status status;
};

Decoded decode(const std::string& bytes, const std::vector<std::size_t>& pieces,
               std::size_t most = api::kMostBytes) {
  Decoded decoded;
  WatchDecoder decoder(
      [&](WatchEvent found) { decoded.names.push_back(api::name_of(found.object)); }, most);
  std::size_t at = 0;
  for (std::size_t i = 0; at < bytes.size(); ++i) {
    decoded.status = decoder.feed(std::string_view(bytes).substr(at, pieces[i % pieces.size()]));
    at += pieces[i % pieces.size()];
  }
  return decoded;
}

TEST(WatchDecoderTest, EventsAreReadInAnyPieces) {
  const std::string bytes = event("ADDED", "a") + "\r\n\n" + event("MODIFIED", "b ä\\u00e4") +
                            event("DELETED", "c") + event("BOOKMARK", "");
  const Decoded whole = decode(bytes, {bytes.size()});
  EXPECT_TRUE(whole.status.ok()) << whole.status.to_string();
  EXPECT_EQ(whole.names, (std::vector<std::string>{"a", "b ää", "c", ""}));
  EXPECT_EQ(decode(bytes, {1}).names, whole.names);
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> pieces(8);
    for (std::size_t& size : pieces) size = 1 + random() % 60;
    ASSERT_EQ(decode(bytes, pieces).names, whole.names);
  }
}

TEST(WatchDecoderTest, ErrorEventEndsTheWatch) {
  const std::string gone =
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired",)"
      R"("message":"too old"}})";
  const Decoded decoded = decode(event("ADDED", "a") + gone + "\n" + event("ADDED", "b"), {5});
  EXPECT_EQ(decoded.status.code(), Code::kOutOfRange);
  EXPECT_EQ(decoded.status.text(), "watch: too old (410)");
  EXPECT_EQ(decoded.names, std::vector<std::string>{"a"});  // and no byte behind
  const std::string other =
      R"({"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}})";
  EXPECT_EQ(decode(other + "\n", {100}).status.code(), Code::kUnavailable);
}

TEST(WatchDecoderTest, MalformedEventIsRefused) {
  for (const std::string line :
       {"x", "[]", "{}", "1", R"({"type":"ADDED"})", R"({"type":"ADDED","object":[]})",
        R"({"type":7,"object":{}})", R"({"type":"NEW","object":{}})",
        R"({"type":"ADDED","object":{}} {})", "\"\\ud800\"", "{\"type\":\xff}"}) {
    const Decoded decoded = decode(line + "\n" + event("ADDED", "after"), {3});
    EXPECT_EQ(decoded.status.code(), Code::kInvalidArgument) << line;
    EXPECT_TRUE(decoded.names.empty()) << line;
  }
  const std::string deep = R"({"type":"ADDED","object":)" + std::string(100'000, '[');
  EXPECT_EQ(decode(deep + "\n", {4096}).status.code(), Code::kInvalidArgument);
}

TEST(WatchDecoderTest, LineLengthIsBounded) {
  WatchDecoder decoder([](WatchEvent) { ADD_FAILURE(); }, 1000);
  const std::string bytes(400, 'x');
  EXPECT_TRUE(decoder.feed(bytes).ok());
  EXPECT_TRUE(decoder.feed(bytes).ok());
  EXPECT_EQ(decoder.feed(bytes).code(), Code::kOutOfRange);
  EXPECT_LE(decoder.kept_bytes(), 1000U);
  EXPECT_EQ(decoder.feed("\n").code(), Code::kOutOfRange);  // the stream stays over
}

TEST(WatchDecoderTest, EndOfInitialEventsIsRecognized) {
  std::vector<bool> ends;
  WatchDecoder decoder([&](WatchEvent found) { ends.push_back(found.initial_end); });
  const std::string end = R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9",)"
                          R"("annotations":{"k8s.io/initial-events-end":"true"}}}})";
  EXPECT_TRUE(decoder.feed(event("ADDED", "a") + event("BOOKMARK", "") + end + "\n").ok());
  EXPECT_EQ(ends, (std::vector<bool>{false, false, true}));
  EXPECT_TRUE(decoder.between_lines());
  EXPECT_TRUE(decoder.feed("{").ok());
  EXPECT_FALSE(decoder.between_lines());
}

}  // namespace
}  // namespace larder::k8s
