#include "sidecar/http/framing.h"

#include <gtest/gtest.h>

#include <string>

namespace larder::http {
namespace {

using State = RequestReader::State;

const Hosts kAny = Hosts::any();
constexpr Limits kSmall{.head_bytes = 100, .body_bytes = 20, .deadline_ms = 1};
constexpr Limits kChunks{.head_bytes = 100, .body_bytes = 20, .chunked = true, .deadline_ms = 1};

struct Found {
  State state;
  int http_status;
  std::string body;
  std::string rest;  // bytes of no request yet
};

// In steps of so many bytes.
Found find(std::string_view bytes, const Limits& limits = kSmall, std::size_t step = 1000) {
  RequestReader reader(limits, kAny);
  State state = State::kMore;
  while (!bytes.empty() && state == State::kMore) {
    std::string_view part = bytes.substr(0, step);
    const std::size_t had = part.size();
    state = reader.take(part);
    bytes.remove_prefix(had - part.size());
  }
  Found found{state, reader.refusal().http_status, "", std::string(bytes)};
  if (state == State::kWhole) found.body = reader.release().body();
  return found;
}

TEST(FramingTest, FindsTheEndOfARequest) {
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(find(get).state, State::kWhole);
  EXPECT_EQ(find(get + "GET /next").rest, "GET /next");
  for (std::size_t i = 0; i < get.size(); ++i)
    EXPECT_EQ(find(get.substr(0, i)).state, State::kMore) << i;
  for (std::size_t step = 1; step < 9; ++step)
    EXPECT_EQ(find(get + "GET", kSmall, step).rest, "GET") << step;
}

TEST(FramingTest, ReadsTheRequestLine) {
  RequestReader reader(kSmall, kAny);
  std::string_view bytes =
      "POST /a/b?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxyGET";
  ASSERT_EQ(reader.take(bytes), State::kWhole);
  const Request request = reader.release();
  EXPECT_EQ(request.method(), "POST");
  EXPECT_EQ(request.path(), "/a/b");
  EXPECT_EQ(request.body(), "xy");
  EXPECT_TRUE(request.keep_alive);
  std::string_view next = "GET  HTTP/1.0\r\n\r\n";
  ASSERT_EQ(reader.take(next), State::kWhole) << "the reader begins anew";
  const Request odd = reader.release();
  EXPECT_EQ(odd.method(), "GET");
  EXPECT_EQ(odd.path(), "");
  EXPECT_FALSE(odd.keep_alive);
}

TEST(FramingTest, WaitsForTheBody) {
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\ncontent-LENGTH:  5 \r\n\r\nabcde";
  EXPECT_EQ(find(post.substr(0, post.size() - 1)).state, State::kMore);
  EXPECT_EQ(find(post).body, "abcde");
}

TEST(FramingTest, RefusesRequestsOverALimit) {
  EXPECT_EQ(find(std::string(99, 'x')).state, State::kMore);
  EXPECT_EQ(find(std::string(100, 'x')).http_status, 431);
  EXPECT_EQ(
      find("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(100, 'x') + "\r\n\r\n").http_status,
      431);
  EXPECT_EQ(find("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n").state, State::kMore);
  EXPECT_EQ(find("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 21\r\n\r\n").http_status, 413);
  EXPECT_EQ(find("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n")
                .http_status,
            413);
}

TEST(FramingTest, RefusesBodiesWithoutOneLength) {
  EXPECT_EQ(find("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").http_status,
            411);
  EXPECT_EQ(find("POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n\r\n").http_status, 415);
  for (const char* value : {"", "-1", "5x", "0x5", "5 5", "+5"})
    EXPECT_EQ(
        find("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::string(value) + "\r\n\r\n")
            .http_status,
        400)
        << value;
  EXPECT_EQ(find("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n")
                .http_status,
            400);
}

// RFC 9112, 3.2.
// covers F-124
TEST(FramingTest, RefusesRequestsWithoutOneHost) {
  EXPECT_EQ(find("GET / HTTP/1.1\r\n\r\n").http_status, 400);
  EXPECT_EQ(find("GET / HTTP/1.0\r\n\r\n").state, State::kWhole);
  EXPECT_EQ(find("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n").http_status, 400);
  EXPECT_EQ(find("GET / HTTP/1.0\r\nHost: a\r\nhost: a\r\n\r\n").http_status, 400);
  EXPECT_EQ(find("GET / HTTP/1.1\r\nHost : a\r\n\r\n").http_status, 400);
  EXPECT_EQ(find("GET / HTTP/1.1\r\nHost: a b\r\n\r\n").http_status, 400);
  EXPECT_EQ(find("GET / HTTP/1.1\r\nHost:\r\n\r\n").state, State::kWhole)
      << "a name of no bytes is one";
}

TEST(FramingTest, RefusesAForeignHostBeforeTheBody) {
  const Hosts own = Hosts::of({"127.0.0.1", 9464}, true);
  RequestReader reader(kSmall, own);
  std::string_view bytes = "POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\n";
  EXPECT_EQ(reader.take(bytes), State::kRefused);
  EXPECT_EQ(reader.refusal().http_status, 421);
}

const std::string kHead = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n";

TEST(FramingTest, JoinsChunks) {
  const std::string post = kHead + "3\r\nabc\r\nA;why=not\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  for (std::size_t step : {1, 2, 3, 7, 1000}) {
    const Found found = find(post + "GET", kChunks, step);
    EXPECT_EQ(found.state, State::kWhole) << step;
    EXPECT_EQ(found.body, "abc0123456789") << step;
    EXPECT_EQ(found.rest, "GET") << step;
  }
  for (std::size_t i = 0; i < post.size(); ++i)
    EXPECT_EQ(find(post.substr(0, i), kChunks).state, State::kMore) << i;
  EXPECT_EQ(find(kHead + "0\r\n\r\n", kChunks).state, State::kWhole);
}

TEST(FramingTest, RefusesMalformedChunks) {
  for (const char* chunks :
       {"\r\n", "-1\r\n", "x\r\n", "3\r\nabcd\r\n", "3\nabc", "3 4\r\n", "0x3\r\n", ";\r\n"})
    EXPECT_EQ(find(kHead + chunks, kChunks).http_status, 400) << chunks;
  EXPECT_EQ(find(kHead + "15\r\n", kChunks).http_status, 413) << "21 bytes";
  EXPECT_EQ(find(kHead + "14\r\n" + std::string(20, 'x') + "\r\n1\r\n", kChunks).http_status, 413);
  EXPECT_EQ(find(kHead + "ffffffffffffffffffffffff\r\n", kChunks).http_status, 413);
  EXPECT_EQ(find(kHead + "3;" + std::string(1000, 'x'), kChunks).http_status, 400)
      << "a line that never ends";
  EXPECT_EQ(find(kHead + "0\r\n" + std::string(1000, 'x'), kChunks).http_status, 431);
  EXPECT_EQ(
      find(kHead + "0\r\nA: b\r\nA: b\r\nA: b\r\n" + std::string(90, 'x') + "\r\n\r\n", kChunks)
          .http_status,
      431);
  EXPECT_EQ(
      find("P / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
           kChunks)
          .http_status,
      400);
  EXPECT_EQ(find("P / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", kChunks)
                .http_status,
            400);
}

}  // namespace
}  // namespace larder::http
