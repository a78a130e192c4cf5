#include "operator/webhook/admission_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "operator/webhook/client_hello.h"
#include "tests/unit/operator/webhook/serving.h"

namespace larder::webhook {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

class AdmissionServerTest : public testing::Test {
 protected:
  Serving serving_;
};

TEST_F(AdmissionServerTest, AnswersManyReviewsOnOneConnection) {
  serving_.start();
  TlsClient client = serving_.connect();
  ASSERT_TRUE(client.connected()) << client.error();
  for (std::size_t bytes : {0, 1, 4096, 100'000, 3 << 20})
    EXPECT_EQ(client.review(std::string(bytes, 'x')), "reviewed " + std::to_string(bytes));
}

TEST_F(AdmissionServerTest, TakesChunkedBodies) {
  serving_.start();
  TlsClient client = serving_.connect();
  EXPECT_THAT(client.ask("POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\nTransfer-Encoding: "
                         "chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n"),
              HasSubstr("reviewed 8"));
  EXPECT_EQ(client.review("x"), "reviewed 1") << "and the next";
}

// Go's client offers both, HTTP/2 first.
TEST_F(AdmissionServerTest, NegotiatesHttp11) {
  serving_.start();
  TlsClient both(serving_.server->address(),
                 {.bundle = serving_.bundle(), .name = kServerName, .alpn = "\x02h2\x08http/1.1"});
  ASSERT_TRUE(both.connected()) << both.error();
  EXPECT_EQ(both.protocol(), "http/1.1");
  EXPECT_EQ(both.review("x"), "reviewed 1");
  TlsClient h2(serving_.server->address(), {.bundle = serving_.bundle(), .alpn = "\x02h2"});
  EXPECT_FALSE(h2.connected());
  EXPECT_THAT(h2.error(), AnyOf(HasSubstr("no application protocol"), HasSubstr("alert")));
}

TEST_F(AdmissionServerTest, NoTlsBefore12AndNoRenegotiation) {
  serving_.start();
  EXPECT_FALSE(
      TlsClient(serving_.server->address(), {.least = TLS1_VERSION, .most = TLS1_1_VERSION})
          .connected());
  TlsClient client(serving_.server->address(),
                   {.bundle = serving_.bundle(), .most = TLS1_2_VERSION});
  ASSERT_TRUE(client.connected()) << client.error();
  EXPECT_EQ(client.review("x"), "reviewed 1");
  SSL_renegotiate(client.ssl());
  EXPECT_NE(SSL_do_handshake(client.ssl()), 1);
}

TEST_F(AdmissionServerTest, OtherRequestsGetTheReviewPath) {
  serving_.start();
  TlsClient client = serving_.connect();
  EXPECT_THAT(client.ask("POST / HTTP/1.1\r\nHost: larder\r\nContent-Length: 0\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("/mutate-v1-pod")));
  EXPECT_THAT(client.ask("GET /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(
      client.ask("POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\nContent-Length: 9999999\r\n\r\n"),
      StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(serving_.connect().ask(
                  "POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\nContent-Encoding: gzip\r\n\r\n"),
              StartsWith("HTTP/1.1 415"));
}

TEST_F(AdmissionServerTest, RefusedReviewReturns400) {
  serving_.serve_leaf();
  serving_.start([](std::string_view, std::string_view) { return Reviewed{400, "no JSON\n"}; });
  TlsClient client = serving_.connect();
  EXPECT_THAT(
      client.ask("POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\nContent-Length: 1\r\n\r\nx"),
      AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("no JSON")));
  EXPECT_THAT(
      client.ask("POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\nContent-Length: 1\r\n\r\nx"),
      StartsWith("HTTP/1.1 400"))
      << "the connection stays";
}

TEST_F(AdmissionServerTest, NoClientIsServedBeforeTheFirstCertificate) {
  serving_.start([](std::string_view, std::string_view) { return Reviewed{200, "early"}; });
  EXPECT_FALSE(serving_.acceptor.ready());
  EXPECT_FALSE(serving_.connect().connected());
  serving_.serve_leaf();
  EXPECT_TRUE(serving_.acceptor.ready());
  EXPECT_EQ(serving_.connect().review("x"), "early");
}

// A slow review holds up neither the others nor the connections.
// covers F-242
TEST_F(AdmissionServerTest, ReviewsRunConcurrentlyUpToALimit) {
  std::atomic<bool> go = false;
  std::atomic<int> at_work = 0;
  serving_.serve_leaf();
  ServerOptions options;
  options.reviewers = {.threads = 2, .waiting = 2};
  serving_.start(
      [&](std::string_view body, std::string_view) {
        at_work += body == "slow";
        while (body == "slow" && !go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return Reviewed{200, std::string(body)};
      },
      options);
  const std::string slow =
      "POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\nContent-Length: 4\r\n\r\nslow";
  TlsClient first = serving_.connect();
  ASSERT_TRUE(first.send(slow));
  EXPECT_EQ(serving_.connect().review("quick"), "quick");
  std::vector<TlsClient> more;
  for (int i = 0; i < 3; ++i) {
    more.push_back(serving_.connect());
    ASSERT_TRUE(more.back().send(slow));
    // both threads; the next review waits
    while (at_work < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  while (serving_.server->counters().requests < 5)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_THAT(serving_.connect().ask(slow),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("\r\nRetry-After: 1\r\n")));
  go = true;
  EXPECT_THAT(first.receive(), HasSubstr("slow"));
  for (TlsClient& client : more) EXPECT_THAT(client.receive(), HasSubstr("slow"));
}

TEST_F(AdmissionServerTest, EndsDuringReviews) {
  serving_.serve_leaf();
  serving_.start([&](std::string_view, std::string_view) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return Reviewed{200, ""};
  });
  std::vector<TlsClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(serving_.connect());
    clients.back().send(
        "POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\nContent-Length: 1\r\n\r\nx");
  }
  const auto begin = std::chrono::steady_clock::now();
  serving_.server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5))
      << "waiting reviews are not done";
}

TEST_F(AdmissionServerTest, InvalidAddressIsReported) {
  const auto start = [this](const std::string& address) {
    return AdmissionServer::start({.address = address}, serving_.acceptor, {}, nullptr)
        .status()
        .to_string();
  };
  EXPECT_THAT(start("nonsense"), HasSubstr("--webhook-address 'nonsense'"));
  serving_.start();
  EXPECT_THAT(start(serving_.server->address()), HasSubstr("--webhook-address 127.0.0.1:"));
}

// A silent client, or a client with half of a hello, has places of its own: all clients that shake
// hands are served beside these.
TEST_F(AdmissionServerTest, PartialHellosBlockNoOtherClient) {
  serving_.serve_leaf();
  ServerOptions options;
  options.limits.silent = 64;
  options.limits.new_clients = 1;
  serving_.start([](std::string_view, std::string_view) { return Reviewed{200, "well"}; }, options);
  const std::string half("\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03", 11);
  std::vector<Fd> held;
  for (int i = 0; i < 64; ++i) {
    held.push_back(http::connect_tcp(serving_.server->address()));
    ASSERT_TRUE(http::send_all(held.back(),
                               std::string_view(half).substr(0, static_cast<std::size_t>(i) % 12)));
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(serving_.connect().review("x"), "well");
  EXPECT_LE(serving_.server->counters().crowded_out, 20U)
      << "one of the silent at most for each that came";
}

// This number of descriptors, and no more, is available in this process during the object's life.
// The descriptors are the server's alone if clients open theirs before: in life a flood comes from
// other processes.
class FewDescriptors {
 public:
  explicit FewDescriptors(unsigned count) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    std::vector<Fd> taken;  // the lowest numbers that are free
    for (unsigned i = 0; i < count; ++i) taken.push_back(http::open_tcp());
    const rlimit tight{static_cast<rlim_t>(taken.back().get()) + 1, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  }
  ~FewDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

// The silent clients take all descriptors; each second of them goes for the next client.
TEST_F(AdmissionServerTest, SilentClientsDoNotUseUpTheDescriptors) {
  constexpr unsigned kSilent = 400, kDescriptors = 100;
  serving_.start();
  std::vector<Fd> silent;
  for (unsigned i = 0; i < kSilent; ++i) silent.push_back(http::open_tcp());
  Fd honest = http::open_tcp();
  const FewDescriptors few(kDescriptors);
  for (Fd& one : silent) {
    one = http::connect_tcp(std::move(one), serving_.server->address());
    ASSERT_TRUE(one.valid());
  }
  EXPECT_EQ(serving_.connect(std::move(honest)).review("x"), "reviewed 1");
  EXPECT_GE(serving_.server->counters().crowded_out, kSilent - kDescriptors)
      << "descriptors did not run out";
}

// No client waits behind; with a waiting client the silent one goes long before its deadline.
TEST_F(AdmissionServerTest, ClientWithTheLastDescriptorIsServed) {
  serving_.start();
  Fd first = http::open_tcp(), silent = http::open_tcp(), next = http::open_tcp();
  const FewDescriptors few(1);
  EXPECT_EQ(serving_.connect(std::move(first)).review("x"), "reviewed 1");
  silent = http::connect_tcp(std::move(silent), serving_.server->address());
  ASSERT_TRUE(silent.valid());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(serving_.connect(std::move(next)).review("x"), "reviewed 1");
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            std::chrono::milliseconds(kAdmissionLimits.deadline_ms));
}

TEST_F(AdmissionServerTest, HelloSentByteByByteIsAccepted) {
  serving_.start();
  const std::string hello = client_hello();
  ASSERT_GE(hello.size(), 100U);
  const Fd client = http::connect_tcp(serving_.server->address());
  const int at_once = 1;
  ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
  for (const char& byte : hello) {
    ASSERT_TRUE(http::send_all(client, {&byte, 1}));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ASSERT_EQ(::shutdown(client.get(), SHUT_WR), 0);
  EXPECT_THAT(http::receive_all(client), StartsWith("\x16\x03\x03")) << "a ServerHello";
}

TEST_F(AdmissionServerTest, ClosedPartialHelloLeaksNothing) {
  serving_.start();
  const std::string hello = client_hello();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kHelloStart, hello.size() - 1}) {
    const Fd client = http::connect_tcp(serving_.server->address());
    ASSERT_TRUE(http::send_all(client, std::string_view(hello).substr(0, count)));
    ASSERT_EQ(::shutdown(client.get(), SHUT_WR), 0);
    http::receive_all(client);
  }
  EXPECT_EQ(serving_.server->counters().timed_out, 0U) << "not by the deadline";
}

// New leaves and new authorities under load: a client that trusts the leader's bundle is never
// refused.
TEST_F(AdmissionServerTest, RotationUnderLoadFailsNoReview) {
  serving_.start();
  std::mutex mutex;
  std::string bundle = serving_.bundle();
  std::atomic<int> done = 0, failed = 0;
  std::vector<std::jthread> clients;
  const auto review = [&](TlsClient& client) {
    ++(client.review("x") == "reviewed 1" ? done : failed);
  };
  for (int i = 0; i < 2; ++i)
    clients.emplace_back([&](const std::stop_token& stop) {
      TlsClient kept(serving_.server->address(),
                     {.bundle = serving_.bundle(), .name = kServerName});
      while (!stop.stop_requested()) {
        std::unique_lock lock(mutex);
        const std::string trusted = bundle;
        lock.unlock();
        TlsClient anew(serving_.server->address(), {.bundle = trusted, .name = kServerName});
        review(anew);
        review(kept);
      }
    });
  for (int turn = 0; turn < 30; ++turn) {
    if (turn % 3 == 2) {  // the new authority is in the bundle first, its leaf comes after that
      serving_.new_authority();
      const std::lock_guard lock(mutex);
      bundle += serving_.bundle();
    }
    const int before = done;
    while (done < before + 4 && failed == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    serving_.serve_leaf();
  }
  clients.clear();
  EXPECT_EQ(failed, 0);
  EXPECT_GE(done, 100);
}

}  // namespace
}  // namespace larder::webhook
