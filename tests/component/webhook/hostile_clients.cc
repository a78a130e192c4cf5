#include "tests/component/webhook/hostile_clients.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "sidecar/base/descriptor_limit.h"
#include "tests/unit/http/client.h"
#include "tests/unit/operator/webhook/tls_client.h"

namespace larder::component_test {
namespace {

using webhook::TlsClient;

constexpr int kPauseMs = 20;  // before an attacker comes back
// attackers are other machines: the work of sending must not be taken from the server
constexpr int kNice = 10;

void pause_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

// A pause that ends with the attack.
void pause_until(const std::stop_token& stop, int ms) {
  for (; ms > 0 && !stop.stop_requested(); ms -= kPauseMs) pause_ms(std::min(ms, kPauseMs));
}

std::string lists() {
  std::string json = "[";
  for (int i = 0; i < 1'000'000; ++i) json += "[],";
  return json + "0]";
}

std::string post(std::size_t bytes) {
  return "POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\nContent-Length: " +
         std::to_string(bytes) + "\r\n\r\n";
}

}  // namespace

HostileClients::HostileClients(std::string address, Flood flood)
    : address_(std::move(address)), from_(flood.from) {
  base::raise_descriptor_limit(
      static_cast<std::uint64_t>(flood.silent + 2 * flood.half_hellos + flood.stopped_handshakes) +
      512);
  const std::string chunked =
      "POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string bomb = lists();
  const auto sending = [this](std::string head, std::string piece, int ms) {
    return [this, head = std::move(head), piece = std::move(piece),
            ms](const std::stop_token& stop) { send_on(stop, head, piece, ms); };
  };
  start(1, [=, this](const std::stop_token& stop) { hold_open(stop, flood.silent, ""); });
  // The first bytes of a ClientHello of the greatest size.
  start(1, [=, this](const std::stop_token& stop) {
    hold_open(stop, flood.half_hellos,
              std::string("\x16\x03\x01\x40\x00\x01\x01\xfc\x00\x03\x03", 11));
  });
  start(1, [=, this](const std::stop_token& stop) {
    hold_open(stop, flood.half_hellos, webhook::client_hello().substr(0, 100));
  });
  start(1, [=, this](const std::stop_token& stop) {
    hold_open(stop, flood.stopped_handshakes, webhook::client_hello());
  });
  start(4, sending("POST /", std::string(16384, 'a'), 0));
  start(4, sending("POST / HTTP/1.1\r\nHost: larder\r\n", "X-Name: value\r\n", 0));
  start(2, sending(chunked, "10000\r\n" + std::string(65536, 'x') + "\r\n", 0));
  start(2, sending(chunked, "1;" + std::string(100, 'x') + "\r\na\r\n", 0));
  start(8, sending("POST /mutate-v1-pod HTTP/1.1\r\nHost: larder\r\n", "x", 1000));
  start(4, sending(post(3u << 20), std::string(32768, 'x'), 50));
  start(1, sending("", post(bomb.size()) + bomb, 250));
  start(2, sending("", post(2) + "{}", 10));
  start(2, [this](const std::stop_token& stop) { send_plain(stop); });
  start(2, [this](const std::stop_token& stop) { renegotiate(stop); });
}

HostileClients::~HostileClients() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void HostileClients::start(int count, std::function<void(const std::stop_token&)> attack) {
  for (int i = 0; i < count; ++i) {
    threads_.emplace_back([attack](const std::stop_token& stop) {
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
      attack(stop);
    });
  }
}

void HostileClients::hold_open(const std::stop_token& stop, int count,
                               const std::string& first_bytes) {
  std::vector<Fd> held(static_cast<std::size_t>(count));
  while (!stop.stop_requested()) {
    int opened = 0;
    for (Fd& one : held) {
      pollfd polled{one.get(), POLLIN, 0};
      if (one.valid() && ::poll(&polled, 1, 0) == 0) continue;
      one = http::connect_tcp(address_, from_);
      if (!one.valid()) break;
      http::send_all(one, first_bytes);
      ++connections_;
      if (++opened % 50 == 0) pause_ms(kPauseMs);
    }
    pause_ms(kPauseMs);
  }
}

// Never reads an answer.
void HostileClients::send_on(const std::stop_token& stop, const std::string& head,
                             const std::string& piece, int ms) {
  while (!stop.stop_requested()) {
    TlsClient client(address_, {.from = from_});
    connections_ += client.connected();
    if (client.connected() && client.send(head))
      while (!stop.stop_requested() && client.send(piece)) pause_until(stop, ms);
    pause_ms(kPauseMs);
  }
}

void HostileClients::send_plain(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Fd client = http::connect_tcp(address_, from_);
    ++connections_;
    http::send_all(client, "GET / HTTP/1.1\r\nHost: larder\r\n\r\n");
    pause_ms(kPauseMs);
  }
}

void HostileClients::renegotiate(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    TlsClient client(address_, {.most = TLS1_2_VERSION, .from = from_});
    connections_ += client.connected();
    if (client.connected()) {
      SSL_renegotiate(client.ssl());
      SSL_do_handshake(client.ssl());
    }
    pause_ms(kPauseMs);
  }
}

}  // namespace larder::component_test
