// A peer in the hands of the test: it says what the test says, to each request of each connection.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sidecar/base/tcp_listener.h"
#include "tests/unit/tiers/peer/peer_fixture.h"

namespace larder::peer::testing_support {

class FakePeer {
 public:
  // The bytes of the reply; empty: none. "close": the connection ends.
  using Answer = std::function<std::string(const Request& request)>;

  explicit FakePeer(Answer answer, Instance self = make_instance("chat", 9))
      : self_(std::move(self)),
        answer_(std::move(answer)),
        listener_(*base::listen_tcp("127.0.0.1", 0, "test")) {
    accepting_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd waiting{listener_.socket.get(), POLLIN, 0};
        ::poll(&waiting, 1, 10);
        base::Accepted accepted = base::accept_next(listener_.socket.get());
        if (!accepted.socket.valid()) continue;
        const std::lock_guard lock(mutex_);
        serving_.emplace_back([this, fd = std::make_shared<Fd>(std::move(accepted.socket))](
                                  const std::stop_token& ended) { serve(*fd, ended); });
      }
    });
  }
  ~FakePeer() {
    accepting_ = {};
    const std::lock_guard lock(mutex_);
    serving_.clear();
  }
  net::Endpoint endpoint() const { return {"127.0.0.1", port_of(listener_.address)}; }
  std::size_t asked(Request::Kind kind) const { return asked_[static_cast<std::size_t>(kind)]; }
  std::size_t replies() const { return replies_; }  // in the sockets of those who asked

 private:
  void serve(const Fd& socket, const std::stop_token& stop) {
    std::string buffer;
    net::ReplyScanner scanner;
    while (!stop.stop_requested()) {
      pollfd waiting{socket.get(), POLLIN, 0};
      ::poll(&waiting, 1, 10);
      char bytes[65536];
      const ssize_t got = ::recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got == 0) return;
      if (got > 0) buffer.append(bytes, static_cast<std::size_t>(got));
      for (;;) {
        const auto span = std::as_bytes(std::span(buffer.data(), buffer.size()));
        if (buffer.empty() || scanner.scan(span) != net::ReplyScanner::Found::kWhole) break;
        const Result<Request> request =
            parse_request(*net::ReplyParser().parse(span.first(scanner.bytes())));
        buffer.erase(0, scanner.bytes());
        scanner.reset();
        if (!request.ok()) return;
        ++asked_[static_cast<std::size_t>(request->kind)];
        const std::string reply = usual(*request);
        if (reply == "close") return;
        send_all(socket, reply, stop);
        ++replies_;
      }
    }
  }
  std::string usual(const Request& request) {
    if (request.kind == Request::Kind::kPing) return "+PONG\r\n";
    if (request.kind == Request::Kind::kHello) return hello_reply(self_);
    if (request.kind == Request::Kind::kDone) return "+OK\r\n";
    return answer_(request);
  }
  static void send_all(const Fd& socket, std::string_view bytes, const std::stop_token& stop) {
    while (!bytes.empty() && !stop.stop_requested()) {
      const ssize_t sent =
          ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return;
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const Instance self_;
  const Answer answer_;
  base::TcpListener listener_;
  std::array<std::atomic<std::size_t>, 5> asked_{};
  std::atomic<std::size_t> replies_ = 0;
  std::mutex mutex_;
  std::vector<std::jthread> serving_;
  std::jthread accepting_;
};

}  // namespace larder::peer::testing_support
