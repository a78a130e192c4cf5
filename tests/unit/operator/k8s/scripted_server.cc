#include "tests/unit/operator/k8s/scripted_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdlib>

namespace larder::k8s {
namespace {

constexpr int kLookMs = 20;  // how soon a thread sees that the server ends

}  // namespace

bool Peer::readable() {
  while (open()) {
    pollfd polled{socket_.get(), POLLIN, 0};
    if (::poll(&polled, 1, kLookMs) > 0) return true;
  }
  return false;
}

std::string Peer::request() {
  std::size_t want = 0;
  while (open()) {
    const std::size_t head = received_.find("\r\n\r\n");
    if (want == 0 && head != std::string::npos) {
      const std::size_t length = received_.find("Content-Length: ");
      want = head + 4 +
             (length < head ? std::strtoul(received_.c_str() + length + 16, nullptr, 10) : 0);
    }
    if (want != 0 && received_.size() >= want) {
      const std::string request = received_.substr(0, want);
      received_.erase(0, want);
      return request;
    }
    if (!readable()) break;
    std::array<char, 65536> buffer{};
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    received_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return "";
}

bool Peer::send(std::string_view bytes) {
  while (!bytes.empty() && open()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return bytes.empty();
}

bool Peer::send_pieces(std::string_view bytes, std::size_t size, unsigned pause_ms) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size()))) {
    if (!send(bytes.substr(0, size))) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
  }
  return true;
}

void Peer::answer(const std::string& body, const std::string& status, const std::string& fields) {
  send("HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\n" + fields +
       "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

void Peer::begin_chunks(const std::string& fields) {
  send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + fields +
       "Transfer-Encoding: chunked\r\n\r\n");
}

void Peer::chunk(std::string_view bytes) {
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  send(size.data() + std::string(bytes) + "\r\n");
}

void Peer::await_end() {
  std::array<char, 4096> buffer{};
  while (readable())
    if (::recv(socket_.get(), buffer.data(), buffer.size(), 0) <= 0) return;
}

ScriptedServer::ScriptedServer(Script script)
    : script_(std::move(script)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_.get(), 64) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    std::abort();
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { run(); });
}

ScriptedServer::~ScriptedServer() {
  over_ = true;
  acceptor_.join();
}

void ScriptedServer::run() {
  while (!over_) {
    pollfd polled{listener_.get(), POLLIN, 0};
    if (::poll(&polled, 1, kLookMs) <= 0) continue;
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) continue;
    const int number = connections_++;
    threads_.emplace_back([this, number, taken = std::make_shared<Fd>(std::move(socket))] {
      Peer peer(std::move(*taken), over_);
      script_(peer, number);
    });
  }
}

ScriptedServer::Script each_request(std::function<void(Peer&, const std::string& request)> answer) {
  return [answer = std::move(answer)](Peer& peer, int) {
    for (std::string request = peer.request(); !request.empty(); request = peer.request())
      answer(peer, request);
  };
}

std::string first_line(const std::string& request) {
  return request.substr(0, request.find("\r\n"));
}

}  // namespace larder::k8s
