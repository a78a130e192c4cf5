// A client of TLS in a test's hands: checks the server against a bundle, sends any bytes, takes its
// time. Each wait ends after kWaitMs. Thread-compatible.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "shim/base/fd.h"
#include "tests/unit/http/client.h"

namespace larder::webhook {

// The first bytes of an OpenSSL client.
inline std::string client_hello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);  // and frees both
  SSL_connect(ssl.get());
  char* bytes = nullptr;
  const long count = BIO_get_mem_data(out, &bytes);
  return {bytes, static_cast<std::size_t>(count)};
}

class TlsClient {
 public:
  static constexpr int kWaitMs = 15'000;
  struct Wanted {
    std::string bundle = {};  // PEM of whom to trust; empty: everybody
    std::string name = {};    // of the server; empty: any
    std::string alpn = {};    // in wire format, "\x02h2\x08http/1.1"; empty: not sent
    int least = TLS1_2_VERSION, most = TLS1_3_VERSION;
    unsigned char from = 1;  // the last byte of its own address
  };

  TlsClient(const std::string& address, const Wanted& wanted)
      : TlsClient(http::connect_tcp(address, wanted.from), wanted) {}
  // Of a socket that is connected.
  TlsClient(Fd socket, const Wanted& wanted) : socket_(std::move(socket)) {
    ::signal(SIGPIPE, SIG_IGN);  // a client that is cut off must hear so
    const timeval wait{kWaitMs / 1000, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    // like Go's clients: the API server's Finished does not hold its review back
    const int at_once = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
    context_.reset(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
    SSL_CTX_set_security_level(context_.get(), 0);  // the server must refuse the refused ones
    SSL_CTX_set_min_proto_version(context_.get(), wanted.least);
    SSL_CTX_set_max_proto_version(context_.get(), wanted.most);
    if (!wanted.bundle.empty()) trust(wanted.bundle);
    ssl_.reset(SSL_new(context_.get()), &SSL_free);
    if (!wanted.name.empty()) SSL_set1_host(ssl_.get(), wanted.name.c_str());
    if (!wanted.alpn.empty())
      SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(wanted.alpn.data()),
                          static_cast<unsigned>(wanted.alpn.size()));
    SSL_set_fd(ssl_.get(), socket_.get());
    ERR_clear_error();
    connected_ = socket_.valid() && SSL_connect(ssl_.get()) == 1;
    if (!connected_) error_ = last_error();
  }

  bool connected() const { return connected_; }
  const std::string& error() const { return error_; }
  SSL* ssl() { return ssl_.get(); }
  const Fd& socket() const { return socket_; }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned bytes = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &bytes);
    return name == nullptr ? "" : std::string(reinterpret_cast<const char*>(name), bytes);
  }

  bool send(std::string_view bytes) {
    ERR_clear_error();
    for (; !bytes.empty();) {
      std::size_t sent = 0;
      if (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent) != 1) return false;
      bytes.remove_prefix(sent);
    }
    return true;
  }

  // One answer with its Content-Length: head and body. The received part after an early end or
  // failure.
  std::string receive() {
    std::string bytes;
    std::size_t whole = std::string::npos;
    while (bytes.size() < whole) {
      std::array<char, 16384> buffer{};
      std::size_t got = 0;
      ERR_clear_error();
      if (SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &got) != 1) return bytes;
      bytes.append(buffer.data(), got);
      const std::size_t head = bytes.find("\r\n\r\n"), length = bytes.find("Content-Length: ");
      if (head == std::string::npos || length == std::string::npos) continue;
      whole = head + 4 + std::stoul(bytes.substr(length + 16));
    }
    return bytes;
  }
  std::string ask(std::string_view request) { return send(request) ? receive() : ""; }

  // The body of a review's answer; empty for a status other than 200.
  std::string review(const std::string& body,
                     const std::string& path = "/mutate-v1-pod?timeout=10s") {
    const std::string answer =
        ask("POST " + path +
            " HTTP/1.1\r\nHost: larder\r\nContent-Type: application/json\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body);
    if (!answer.starts_with("HTTP/1.1 200 ")) return "";
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }

 private:
  void trust(const std::string& bundle) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
        BIO_new_mem_buf(bundle.data(), static_cast<int>(bundle.size())), &BIO_free);
    while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), one);
      X509_free(one);
    }
    ERR_clear_error();
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  }
  static std::string last_error() {
    const unsigned long code = ERR_get_error();
    const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
    return reason == nullptr ? "no error of TLS" : reason;
  }

  Fd socket_;
  std::shared_ptr<SSL_CTX> context_;
  std::shared_ptr<SSL> ssl_;
  bool connected_ = false;
  std::string error_;
};

}  // namespace larder::webhook
