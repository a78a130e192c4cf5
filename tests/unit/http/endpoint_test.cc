#include "sidecar/http/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "sidecar/http/answer.h"
#include "tests/unit/http/client.h"

namespace larder::http {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

class EndpointTest : public testing::Test {
 protected:
  void start(Limits limits, std::size_t answer_bytes = 10) {
    start(limits, [answer_bytes](const Request& request, const Reply& reply) {
      reply({whole_answer(200, "text/plain", std::string(answer_bytes, 'a'), request.keep_alive),
             false});
    });
  }
  void start(Limits limits, Endpoint::Handle handle) {
    Result<Listener> listener = listen_tcp({"127.0.0.1", 0});
    ASSERT_TRUE(listener.ok()) << listener.status().text();
    endpoint_ = std::make_unique<Endpoint>(std::move(*listener), limits, std::move(handle), clock_,
                                           counters_);
  }
  Fd connect(unsigned char from = 1) { return connect_tcp(endpoint_->address(), from); }
  // Each answer earns its client a place.
  void start_earning(Limits limits) {
    limits.requests = 100;
    limits.idle_ms = 60'000;
    start(limits, [](const Request& request, const Reply& reply) {
      reply({whole_answer(200, "text/plain", "aaaaaaaaaa", request.keep_alive), true});
    });
  }
  // Waits until this number was crowded out: this happens at the end of a round, when an answer may
  // be out already.
  std::uint64_t crowded_out(std::uint64_t expected) {
    for (int i = 0; i < 10'000 && counters_.crowded_out < expected; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return counters_.crowded_out;
  }
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

// covers F-123
TEST_F(EndpointTest, SilentClientsDelayNoOtherClient) {
  start({});
  std::vector<Fd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect());
  const std::uint64_t ms =
      elapsed_ms([&] { EXPECT_THAT(ask(connect(), kGet), HasSubstr("aaaaaaaaaa")); });
  EXPECT_LT(ms, Limits().deadline_ms / 2U);
  EXPECT_GE(counters_.crowded_out, 200U - Limits().new_clients);
}

TEST_F(EndpointTest, SilentClientsAreClosedAtTheDeadline) {
  start({.deadline_ms = 200});
  const Fd silent = connect();
  const std::uint64_t ms = elapsed_ms([&] { EXPECT_EQ(receive_all(silent), ""); });
  EXPECT_GE(ms, 150U);
  EXPECT_LT(ms, 2000U);
  EXPECT_EQ(counters_.timed_out, 1U);
}

// Each byte of progress buys no more time: the deadline is absolute.
// covers F-123
TEST_F(EndpointTest, SlowClientsAreClosedAtTheDeadlineAndDelayNoOther) {
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

TEST_F(EndpointTest, ClientsNotReadingAreClosedAtTheDeadline) {
  start({.deadline_ms = 300}, 16 << 20);
  const Fd deaf = connect();
  ASSERT_TRUE(send_all(deaf, kGet));
  EXPECT_THAT(ask(connect(), "GET"), "")
      << "the endpoint goes on meanwhile, until this one's own deadline";
  EXPECT_EQ(counters_.timed_out, 2U);
}

TEST_F(EndpointTest, RefusalNamesTheReason) {
  start({});
  EXPECT_THAT(ask(connect(), std::string(17 * 1024, 'x')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask(connect(), "GET / HTTP/1.1\r\nHost: localhost\r\nA: " +
                                 std::string(20 * 1024, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(
      ask(connect(), "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" +
                         std::string(1000000, 'x')),
      StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(
      ask(connect(),
          "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
      StartsWith("HTTP/1.1 411 "));
  EXPECT_EQ(counters_.refused, 4U);
  EXPECT_EQ(counters_.requests, 0U);
}

// One answer of 10 bytes, and no byte of the next.
std::string receive_answer(const Fd& socket) {
  std::string bytes;
  while (!bytes.ends_with("aaaaaaaaaa")) {
    char byte = 0;
    if (::recv(socket.get(), &byte, 1, 0) != 1) return bytes + "(the end)";
    bytes += byte;
  }
  return bytes;
}

TEST_F(EndpointTest, ConnectionIsKeptUpToTheRequestLimit) {
  start({.requests = 3, .idle_ms = 5000});
  const Fd client = connect();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(send_all(client, kGet));
    EXPECT_THAT(receive_answer(client), Not(HasSubstr("Connection: close")));
  }
  EXPECT_THAT(ask(client, kGet), AllOf(HasSubstr("Connection: close"), EndsWith("aaaaaaaaaa")))
      << "and it ends";
  EXPECT_THAT(ask(connect(), "GET / HTTP/1.1\r\nHost: localhost\r\nconnection: Close\r\n\r\n"),
              HasSubstr("Connection: close"));
  EXPECT_THAT(ask(connect(), "GET / HTTP/1.0\r\n\r\n"), HasSubstr("Connection: close"));
}

TEST_F(EndpointTest, PipelinedRequestsAreAnsweredInOrder) {
  start({.chunked = true, .requests = 100, .idle_ms = 200});
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  const std::string answers = ask(connect(), std::string(kGet) + chunked + std::string(kGet));
  std::size_t count = 0;
  for (std::size_t at = 0; (at = answers.find("HTTP/1.1 200", at)) != std::string::npos; ++at)
    ++count;
  EXPECT_EQ(count, 3U) << answers;
  EXPECT_EQ(counters_.timed_out, 0U) << "an idle connection that ends is no failure";
}

TEST_F(EndpointTest, AnswersLaterAndFromAnyThread) {
  std::vector<std::jthread> threads;
  start({}, [&](const Request& request, const Reply& reply) {
    threads.emplace_back([body = std::string(request.body()), reply] {
      std::this_thread::sleep_for(std::chrono::milliseconds(body == "slow" ? 300 : 0));
      reply({plain_answer(400, body), false});
    });
  });
  const Fd slow = connect();
  ASSERT_TRUE(
      send_all(slow, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nslow"));
  EXPECT_THAT(
      ask(connect(), "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nquick"),
      HasSubstr("quick"));
  EXPECT_THAT(receive_all(slow), HasSubstr("slow"));
}

TEST_F(EndpointTest, LateAnswersAreDiscarded) {
  std::optional<Reply> kept;
  std::atomic<bool> asked = false;
  start({}, [&](const Request&, const Reply& reply) {
    kept = reply;
    asked = true;
  });
  const Fd client = connect();
  ASSERT_TRUE(send_all(client, kGet));
  while (!asked) std::this_thread::yield();
  endpoint_.reset();
  (*kept)({plain_answer(400, "late"), false});
  EXPECT_EQ(receive_all(client), "");
}

// A client with an earned answer keeps its connection while new clients come and go.
TEST_F(EndpointTest, NewConnectionsAreClosedFirst) {
  start_earning({.new_clients = 8, .earned = 8});
  const Fd honest = connect();
  ASSERT_TRUE(send_all(honest, kGet));
  ASSERT_THAT(receive_answer(honest), EndsWith("aaaaaaaaaa"));
  std::vector<Fd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(connect());
  ASSERT_TRUE(send_all(honest, kGet));
  EXPECT_THAT(receive_answer(honest), EndsWith("aaaaaaaaaa"));
  EXPECT_GE(crowded_out(90), 90U);
}

TEST_F(EndpointTest, NewConnectionsAreBounded) {
  start({.new_clients = 2});
  const Fd first = connect(), second = connect(), third = connect();
  EXPECT_EQ(receive_all(first), "");
  EXPECT_EQ(counters_.crowded_out, 1U);
  EXPECT_EQ(counters_.timed_out, 0U) << "not by the connection's deadline";
  EXPECT_THAT(ask(third, kGet), HasSubstr("aaaaaaaaaa"));
}

// The same with clients that have all earned theirs: who was idle longest goes.
TEST_F(EndpointTest, LongestIdleConnectionIsClosedFirst) {
  start_earning({.earned = 4});
  std::vector<Fd> clients;
  const auto serve = [](const Fd& client) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return send_all(client, kGet) && receive_answer(client).ends_with("aaaaaaaaaa");
  };
  for (int i = 0; i < 4; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(serve(clients.back()));
  }
  ASSERT_TRUE(serve(clients[0]));
  ASSERT_TRUE(serve(connect()));
  EXPECT_TRUE(serve(clients[0]));
  EXPECT_EQ(receive_all(clients[1]), "");
  EXPECT_EQ(counters_.crowded_out, 1U);
}

// A flood from one address takes the places of that address: a client of another address keeps its
// place, however old.
TEST_F(EndpointTest, FloodOfNewConnectionsClosesItsOwnConnections) {
  start({.new_clients = 4});
  const Fd honest = connect();
  ASSERT_TRUE(send_all(honest, "GET / HT"));
  std::vector<Fd> flood;
  for (int i = 0; i < 50; ++i) {
    flood.push_back(connect(2));
    ASSERT_TRUE(send_all(flood.back(), "GET / HT"));
  }
  EXPECT_GE(crowded_out(47), 47U);
  EXPECT_THAT(ask(honest, "TP/1.1\r\nHost: localhost\r\n\r\n"), HasSubstr("aaaaaaaaaa"));
}

TEST_F(EndpointTest, FloodOfEarnedConnectionsClosesItsOwnConnections) {
  start_earning({.earned = 4});
  const Fd honest = connect();
  ASSERT_TRUE(send_all(honest, kGet));
  ASSERT_THAT(receive_answer(honest), EndsWith("aaaaaaaaaa"));
  std::vector<Fd> flood;
  for (int i = 0; i < 20; ++i) {
    flood.push_back(connect(2));
    ASSERT_TRUE(send_all(flood.back(), kGet));
    ASSERT_THAT(receive_answer(flood.back()), EndsWith("aaaaaaaaaa"));
  }
  EXPECT_EQ(crowded_out(17), 17U);
  ASSERT_TRUE(send_all(honest, kGet));
  EXPECT_THAT(receive_answer(honest), EndsWith("aaaaaaaaaa"));
}

TEST_F(EndpointTest, BufferedBytesAreBoundedByClosingTheLargest) {
  start({.body_bytes = 1 << 20, .held_bytes = 1 << 20});
  const Fd small = connect();
  ASSERT_TRUE(send_all(small, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nsm"));
  std::vector<Fd> large;
  for (int i = 0; i < 4; ++i) {
    large.push_back(connect());
    send_all(large.back(), "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" +
                               std::string(500'000, 'x'));
  }
  EXPECT_GE(crowded_out(2), 2U);
  EXPECT_THAT(ask(small, "al"), HasSubstr("aaaaaaaaaa"));
}

TEST_F(EndpointTest, StopsAtOnceWithConnectedClients) {
  start({});
  const Fd silent = connect();
  EXPECT_LT(elapsed_ms([&] { endpoint_.reset(); }), 1000U);
  EXPECT_EQ(receive_all(silent), "");
}

}  // namespace
}  // namespace larder::http
