// Over real sockets: attacks of a pod on the program that asks.
#include "operator/reconcile/fetch.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "shim/base/fd.h"

namespace larder::reconcile {
namespace {

// Answers every connection with the same bytes, or with an empty answer.
class Server {
 public:
  explicit Server(std::string bytes, bool silent = false)
      : bytes_(std::move(bytes)), silent_(silent) {
    socket_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_.get(), 128), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/v1/status";
    thread_ = std::jthread([this] { serve(); });
  }
  ~Server() {
    stopping_ = true;
    ::shutdown(socket_.get(), SHUT_RDWR);
  }
  const std::string& url() const { return url_; }
  int served() const { return served_; }

 private:
  void serve() {
    while (!stopping_) {
      Fd connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.valid()) return;
      ++served_;
      char request[4096];
      if (::recv(connection.get(), request, sizeof(request), 0) <= 0) continue;
      if (silent_)
        kept_.push_back(std::move(connection));
      else
        static_cast<void>(::send(connection.get(), bytes_.data(), bytes_.size(), MSG_NOSIGNAL));
    }
  }

  const std::string bytes_;
  const bool silent_;
  std::string url_;
  Fd socket_;
  std::vector<Fd> kept_;
  std::atomic<int> served_{0};
  std::atomic<bool> stopping_{false};
  std::jthread thread_;
};

std::string http(const std::string& head, const std::string& body) {
  return "HTTP/1.1 " + head + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

Result<std::string> get(const std::string& url, std::size_t most = 1000) {
  Result<std::string> got = Status(Code::kInternal, "never told");
  const std::vector<std::string> urls{url};
  Fetch::make()->get_all(urls, most, {},
                         [&](std::size_t, Result<std::string> body) { got = std::move(body); });
  return got;
}

TEST(FetchTest, AnswerIsReturned) {
  const Server server(http("200 OK", "hello"));
  const Result<std::string> got = get(server.url());
  ASSERT_TRUE(got.ok()) << got.status().text();
  EXPECT_EQ(*got, "hello");
}

TEST(FetchTest, OtherAnswersAreErrors) {
  const Server refusing(http("503 Service Unavailable", "later"));
  EXPECT_EQ(get(refusing.url()).status().text(), "HTTP 503");
  const Server speechless("no HTTP at all");
  EXPECT_FALSE(get(speechless.url()).ok());
  EXPECT_FALSE(get("http://127.0.0.1:1/v1/status").ok());
}

TEST(FetchTest, TooLongAnswerIsRefused) {
  const Server server(http("200 OK", std::string(5000, 'x')));
  EXPECT_EQ(get(server.url()).status().code(), Code::kOutOfRange);
  EXPECT_TRUE(get(server.url(), 5000).ok());
}

// A pod must not make the operator ask another server.
TEST(FetchTest, RedirectsAndOtherSchemesAreNotFollowed) {
  const Server target(http("200 OK", "secret"));
  const Server server(http("302 Found\r\nLocation: " + target.url(), ""));
  EXPECT_EQ(get(server.url()).status().text(), "HTTP 302");
  EXPECT_EQ(target.served(), 0);
  EXPECT_FALSE(get("file:///etc/passwd").ok());
}

TEST(FetchTest, ManyUrlsAreFetchedOnceEach) {
  const Server server(http("200 OK", "hello"));
  const std::vector<std::string> urls(5 * Fetch::kAtOnce, server.url());
  std::map<std::size_t, int> told;
  Fetch::make()->get_all(urls, 1000, {}, [&](std::size_t index, const Result<std::string>& body) {
    told[index] += body.ok() ? 1 : 0;
  });
  EXPECT_EQ(told.size(), urls.size());
  for (const auto& [index, times] : told) EXPECT_EQ(times, 1) << index;
}

TEST(FetchTest, SilentServersDelayOthersBriefly) {
  const Server silent("", true);
  const Server server(http("200 OK", "hello"));
  std::vector<std::string> urls(Fetch::kAtOnce - 1, silent.url());
  urls.resize(2 * Fetch::kAtOnce, server.url());
  std::size_t good = 0, late = 0;
  Fetch::make()->get_all(urls, 1000, {}, [&](std::size_t, const Result<std::string>& body) {
    good += body.ok() ? 1 : 0;
    late += body.status().code() == Code::kDeadlineExceeded ? 1 : 0;
  });
  EXPECT_EQ(late, Fetch::kAtOnce - 1);
  EXPECT_EQ(good + late, urls.size());
}

TEST(FetchTest, StopRequestEndsAtOnce) {
  const Server silent("", true);
  std::stop_source stop;
  stop.request_stop();
  int told = 0;
  const std::vector<std::string> urls{silent.url()};
  Fetch::make()->get_all(urls, 1000, stop.get_token(),
                         [&](std::size_t, const Result<std::string>&) { ++told; });
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace larder::reconcile
