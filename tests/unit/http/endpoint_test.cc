#include "sidecar/http/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "sidecar/http/answer.h"
#include "tests/unit/http/client.h"

namespace larder::http {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\n\r\n";

class EndpointTest : public testing::Test {
 protected:
  void start(Limits limits, std::size_t answer_bytes = 10) {
    Result<Listener> listener = listen_tcp({"127.0.0.1", 0});
    ASSERT_TRUE(listener.ok()) << listener.status().text();
    endpoint_ = std::make_unique<Endpoint>(
        std::move(*listener), limits,
        [answer_bytes](const std::string&) { return plain_answer(400, std::string(answer_bytes, 'a')); }, clock_, counters_);
  }
  Fd connect() { return connect_tcp(endpoint_->address()); }
  std::uint64_t elapsed_ms(auto&& work) {
    const std::uint64_t start = clock_.now_ms();
    work();
    return clock_.now_ms() - start;
  }

  const base::MonotonicClock clock_;
  Counters counters_;
  std::unique_ptr<Endpoint> endpoint_;
};

TEST_F(EndpointTest, AnswersEachConnectionOnce) {
  start({});
  for (int i = 0; i < 100; ++i) EXPECT_THAT(ask(connect(), kGet), HasSubstr("aaaaaaaaaa"));
  EXPECT_EQ(counters_.requests, 100U);
}

TEST_F(EndpointTest, SilentClientsStallNobody) {
  start({});
  std::vector<Fd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect());
  const std::uint64_t ms = elapsed_ms([&] { EXPECT_THAT(ask(connect(), kGet), HasSubstr("aaaaaaaaaa")); });
  EXPECT_LT(ms, Limits().deadline_ms / 2U);
  EXPECT_GE(counters_.crowded_out, 200U - Limits().connections);
}

TEST_F(EndpointTest, SilentClientsEndByTheDeadline) {
  start({.deadline_ms = 200});
  const Fd silent = connect();
  const std::uint64_t ms = elapsed_ms([&] { EXPECT_EQ(receive_all(silent), ""); });
  EXPECT_GE(ms, 150U);
  EXPECT_LT(ms, 2000U);
  EXPECT_EQ(counters_.timed_out, 1U);
}

// Each byte of progress buys no more time: the deadline is absolute.
TEST_F(EndpointTest, SlowClientsEndByTheDeadlineAndStallNobody) {
  start({.deadline_ms = 400});
  const Fd slow = connect();
  const std::uint64_t begin = clock_.now_ms();
  bool open = true;
  while (open && clock_.now_ms() - begin < 5000) {
    open = send_all(slow, "G");
    EXPECT_THAT(ask(connect(), kGet), HasSubstr("aaaaaaaaaa"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(open);
  EXPECT_LT(clock_.now_ms() - begin, 2000U);
  EXPECT_EQ(counters_.timed_out, 1U);
}

TEST_F(EndpointTest, ClientsThatDoNotReadEndByTheDeadline) {
  start({.deadline_ms = 300}, 64 << 20);
  const Fd deaf = connect();
  ASSERT_TRUE(send_all(deaf, kGet));
  EXPECT_THAT(ask(connect(), "GET"), "") << "the endpoint goes on meanwhile, until this one's own deadline";
  EXPECT_EQ(counters_.timed_out, 2U);
}

TEST_F(EndpointTest, RefusesByName) {
  start({});
  EXPECT_THAT(ask(connect(), std::string(17 * 1024, 'x')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask(connect(), "GET / HTTP/1.1\r\nA: " + std::string(20 * 1024, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask(connect(), "POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + std::string(1000000, 'x')),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask(connect(), "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), StartsWith("HTTP/1.1 411 "));
  EXPECT_EQ(counters_.refused, 4U);
  EXPECT_EQ(counters_.requests, 0U);
}

TEST_F(EndpointTest, StopsAtOnceWithClientsConnected) {
  start({});
  const Fd silent = connect();
  EXPECT_LT(elapsed_ms([&] { endpoint_.reset(); }), 1000U);
  EXPECT_EQ(receive_all(silent), "");
}

}  // namespace
}  // namespace larder::http
