#include "tests/bench/peer_raw_arm.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "sidecar/base/tcp_listener.h"

namespace larder::bench {
namespace {

constexpr std::uint32_t kOpen = 4;
constexpr int kMostTries = 30;  // a second apart: the servers make their chunks first
constexpr const char* kName = "chat.bench.larder";

void must(bool held, const char* what) {
  if (!held) throw std::runtime_error(what);
}

SSL_CTX* make_context(const net::TlsOptions& options, RawConnection::Side side) {
  const bool serves = side == RawConnection::Side::kServes;
  SSL_CTX* const context = SSL_CTX_new(serves ? TLS_server_method() : TLS_client_method());
  must(context != nullptr, "TLS: no context");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  must(SSL_CTX_load_verify_locations(context, options.ca_file.c_str(), nullptr) == 1 &&
           SSL_CTX_use_certificate_chain_file(context, options.cert_file.c_str()) == 1 &&
           SSL_CTX_use_PrivateKey_file(context, options.key_file.c_str(), SSL_FILETYPE_PEM) == 1,
       "TLS: the files of the certificate");
  return context;
}

}  // namespace

OwnCertificate::OwnCertificate() {
  char folder[] = "/tmp/larder-bench-tls-XXXXXX";
  must(::mkdtemp(folder) != nullptr, "no temporary folder");
  folder_ = folder;
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x "
      "-addext subjectAltName=DNS:" +
      std::string(kName) + " -keyout " + folder_ + "/key -out " + folder_ + "/crt >/dev/null 2>&1";
  must(::system(command.c_str()) == 0, "openssl made no certificate");
}

OwnCertificate::~OwnCertificate() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

net::TlsOptions OwnCertificate::options() const {
  return {.enabled = true,
          .ca_file = folder_ + "/crt",
          .cert_file = folder_ + "/crt",
          .key_file = folder_ + "/key",
          .server_name = kName,
          .strict = true,
          .section = "peers"};
}

RawConnection::RawConnection(Fd socket, const net::TlsOptions& options, Side side)
    : socket_(std::move(socket)) {
  if (!options.enabled) return;
  context_ = make_context(options, side);
  ssl_ = SSL_new(context_);
  must(ssl_ != nullptr && SSL_set_fd(ssl_, socket_.get()) == 1, "TLS: no connection");
  must((side == Side::kServes ? SSL_accept(ssl_) : SSL_connect(ssl_)) == 1, "TLS: no handshake");
}

RawConnection::~RawConnection() {
  SSL_free(ssl_);
  SSL_CTX_free(context_);
}

bool RawConnection::send(std::span<const std::byte> bytes) {
  std::size_t sent = 0;
  if (ssl_ != nullptr) return SSL_write_ex(ssl_, bytes.data(), bytes.size(), &sent) == 1;
  while (!bytes.empty()) {
    const ssize_t more = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (more <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(more));
  }
  return true;
}

bool RawConnection::receive(std::span<std::byte> bytes) {
  if (ssl_ == nullptr)
    return ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_WAITALL) ==
           static_cast<ssize_t>(bytes.size());
  while (!bytes.empty()) {
    std::size_t got = 0;
    if (SSL_read_ex(ssl_, bytes.data(), bytes.size(), &got) != 1) return false;
    bytes = bytes.subspan(got);
  }
  return true;
}

void serve_raw(std::uint16_t port, const std::vector<std::vector<std::byte>>& chunks,
               const net::TlsOptions& options) {
  const Result<base::TcpListener> listener = base::listen_tcp("0.0.0.0", port, "raw");
  must(listener.ok(), "the plain loop does not listen");
  for (;;) {
    base::Accepted accepted = base::accept_next(listener->socket.get());
    if (!accepted.socket.valid()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    ::fcntl(accepted.socket.get(), F_SETFL, 0);
    RawConnection connection(std::move(accepted.socket), options, RawConnection::Side::kServes);
    std::uint32_t number = 0;
    while (connection.receive(std::as_writable_bytes(std::span(&number, 1))) &&
           connection.send(chunks[number])) {
    }
  }
}

RawArm::RawArm(std::uint16_t port, const net::TlsOptions& options) {
  Fd socket;
  bool connected = false;
  for (int i = 0; i < kMostTries && !connected; ++i) {
    if (i != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    connected =
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) == 0;
  }
  must(connected, "no plain connection");
  connection_ =
      std::make_unique<RawConnection>(std::move(socket), options, RawConnection::Side::kAsks);
}

void RawArm::read(std::uint32_t first, std::span<const std::span<std::byte>> slots) {
  std::uint32_t asked = 0;
  for (std::uint32_t got = 0; got < slots.size(); ++got) {
    for (; asked < slots.size() && asked < got + kOpen; ++asked) {
      const std::uint32_t number = first + asked;
      must(connection_->send(std::as_bytes(std::span(&number, 1))), "the plain loop ends");
    }
    must(connection_->receive(slots[got]), "the plain loop ends");
  }
}

}  // namespace larder::bench
