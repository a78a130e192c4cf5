#include "sidecar/http/framing.h"

#include <gtest/gtest.h>

#include <string>

namespace larder::http {
namespace {

using State = Framing::State;

constexpr Limits kSmall{.head_bytes = 100, .body_bytes = 20, .connections = 1, .deadline_ms = 1};

Framing find(std::string_view bytes) {
  return find_request(bytes, kSmall);
}

TEST(FramingTest, FindsTheEndOfARequest) {
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(find(get).state, State::kWhole);
  EXPECT_EQ(find(get).request_bytes, get.size());
  EXPECT_EQ(find(get + "GET /next").request_bytes, get.size()) << "what follows belongs to nobody";
  for (std::size_t i = 0; i < get.size(); ++i) EXPECT_EQ(find(get.substr(0, i)).state, State::kMore) << i;
}

TEST(FramingTest, WaitsForTheBody) {
  const std::string post = "POST / HTTP/1.1\r\ncontent-LENGTH:  5 \r\n\r\nabcde";
  EXPECT_EQ(find(post.substr(0, post.size() - 1)).state, State::kMore);
  EXPECT_EQ(find(post).request_bytes, post.size());
}

TEST(FramingTest, RefusesWhatIsOverALimit) {
  EXPECT_EQ(find(std::string(99, 'x')).state, State::kMore);
  EXPECT_EQ(find(std::string(100, 'x')).http_status, 431);
  EXPECT_EQ(find("GET / HTTP/1.1\r\nA: " + std::string(100, 'x') + "\r\n\r\n").http_status, 431);
  EXPECT_EQ(find("POST / HTTP/1.1\r\nContent-Length: 20\r\n\r\n").state, State::kMore);
  EXPECT_EQ(find("POST / HTTP/1.1\r\nContent-Length: 21\r\n\r\n").http_status, 413);
  EXPECT_EQ(find("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n").http_status, 413);
}

TEST(FramingTest, RefusesBodiesWithoutOneLength) {
  EXPECT_EQ(find("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").http_status, 411);
  EXPECT_EQ(find("POST / HTTP/1.1\r\nContent-Encoding: gzip\r\n\r\n").http_status, 415);
  for (const char* value : {"", "-1", "5x", "0x5", "5 5", "+5"})
    EXPECT_EQ(find("POST / HTTP/1.1\r\nContent-Length: " + std::string(value) + "\r\n\r\n").http_status, 400) << value;
  EXPECT_EQ(find("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n").http_status, 400);
}

}  // namespace
}  // namespace larder::http
