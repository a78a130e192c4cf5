#include "operator/webhook/tls_acceptor.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "operator/webhook/client_hello.h"

namespace larder::webhook {
namespace {

struct Free {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

// An incomplete ClientHello stays in the kernel and costs no memory here. SO_RCVLOWAT wakes the
// server when more bytes have arrived.
class TlsStream final : public http::Stream {
 public:
  TlsStream(Fd socket, std::shared_ptr<SSL_CTX> context)
      : socket_(std::move(socket)), context_(std::move(context)) {
    wait_for(kHelloStart);
  }

  int fd() const override { return socket_.get(); }
  bool begun() const override { return ssl_ != nullptr; }

  // OpenSSL does the handshake during the first reads.
  Moved read(std::span<char> into) override {
    // The endpoint reads only when the socket is readable. MSG_PEEK leaves the ClientHello in the
    // kernel until it is complete.
    if (ssl_ == nullptr) return look(into);
    std::size_t got = 0;
    // SSL_get_error() looks into the thread's error queue: an older entry would end this
    // connection.
    ERR_clear_error();
    const int done = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    return done == 1 ? Moved{got, 0} : failed(done);
  }

  Moved write(std::string_view bytes) override {
    std::size_t sent = 0;
    ERR_clear_error();
    const int done = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent);
    return done == 1 ? Moved{sent, 0} : failed(done);
  }

  // A client learns by close_notify that the answer is complete, and no attacker cut it.
  void finish() override {
    if (ssl_ == nullptr) return;
    ERR_clear_error();
    SSL_shutdown(ssl_.get());  // sends close_notify without waiting for the client's
    ERR_clear_error();
    ::shutdown(fd(), SHUT_WR);
  }

 private:
  // Checks whether the ClientHello has arrived.
  Moved look(std::span<char> buffer) {
    const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), MSG_PEEK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {0, POLLIN};
    const std::size_t needed =
        got <= 0 ? 0 : hello_bytes({buffer.data(), static_cast<std::size_t>(got)});
    if (needed == 0) return {};
    // `needed > awaited_` avoids a loop: the kernel wakes with fewer bytes only at the end of the
    // stream.
    if (static_cast<std::size_t>(got) < needed && needed > awaited_) {
      wait_for(needed);
      return {0, POLLIN};
    }
    // Fewer bytes than requested: the client has closed, or the kernel lacks memory. OpenSSL finds
    // out.
    return begin() ? Moved{0, POLLIN} : Moved{};
  }

  bool begin() {
    wait_for(1);
    // SSL_new() allocates; a stranger that sends no ClientHello never gets here.
    ssl_.reset(SSL_new(context_.get()));  // refers to the context
    context_.reset();
    if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), fd()) != 1) return false;
    SSL_set_accept_state(ssl_.get());
    return true;
  }

  void wait_for(std::size_t bytes) {
    awaited_ = bytes;
    const int least = static_cast<int>(bytes);
    ::setsockopt(fd(), SOL_SOCKET, SO_RCVLOWAT, &least,
                 sizeof(least));  // a failure costs extra looks
  }

  Moved failed(int done) {
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ: return {0, POLLIN};
      case SSL_ERROR_WANT_WRITE: return {0, POLLOUT};
      default: return {};
    }
  }

  Fd socket_;                         // outlives ssl_, which uses the descriptor
  std::shared_ptr<SSL_CTX> context_;  // shared with the acceptor until the stream begins
  std::size_t awaited_ = 0;           // bytes needed for the next look
  std::unique_ptr<SSL, Free> ssl_;
};

// Go's clients offer h2 first; the server chooses http/1.1. A client that offers only other
// protocols gets an alert.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                    const unsigned char* offered, unsigned offered_bytes, void*) {
  static constexpr std::string_view kOurs = "http/1.1";
  // The list of ALPN: length byte, name, and so on (RFC 7301). OpenSSL has checked the lengths; the
  // min() needs no trust in that.
  for (unsigned at = 0; at < offered_bytes; at += offered[at] + 1U) {
    const std::string_view one(reinterpret_cast<const char*>(offered + at + 1),
                               std::min<unsigned>(offered[at], offered_bytes - at - 1));
    if (one != kOurs) continue;
    *chosen = offered + at + 1;
    *chosen_bytes = offered[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

Status wrong_files(const char* what) {
  ERR_clear_error();
  return {Code::kInvalidArgument, what};
}

// Sets the leaf and the following certificates as its chain.
Status use_certificates(SSL_CTX* context, const std::string& pem) {
  const std::vector<std::string> chain = pki::split_bundle(pem);
  if (chain.empty()) return wrong_files("tls.crt holds no certificate in PEM");
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const std::unique_ptr<BIO, Free> bio(
        BIO_new_mem_buf(chain[i].data(), static_cast<int>(chain[i].size())));
    std::unique_ptr<X509, Free> one(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (one == nullptr) return wrong_files("tls.crt holds a certificate that cannot be read");
    if (i == 0 && SSL_CTX_use_certificate(context, one.get()) != 1)
      return wrong_files("tls.crt: the certificate cannot be served");
    // On success, add0 takes ownership.
    if (i > 0 && SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 0, one.get()) == 1)
      static_cast<void>(one.release());
  }
  return {};
}

// Without the callback OpenSSL would ask for a password at the terminal.
Status use_key(SSL_CTX* context, const std::string& pem) {
  const std::unique_ptr<BIO, Free> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const auto no_password = [](char*, int, int, void*) { return 0; };
  const std::unique_ptr<EVP_PKEY, Free> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (key == nullptr) return wrong_files("tls.key holds no private key in PEM without a password");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    return wrong_files("tls.key does not belong to the certificate of tls.crt");
  return {};
}

}  // namespace

// The new context replaces the old one only when all parts are right. A wrong file in the folder
// must not stop the webhook.
Status TlsAcceptor::serve(const pki::KeyPair& pair) {
  const Result<pki::CertificateFacts> facts = pki::read_certificate(pair.certificate);
  if (!facts.ok()) return wrong_files("tls.crt holds no certificate in PEM");
  // ready() relies on the end: without it /readyz would report no certificate although one is
  // served.
  if (facts->validity.not_after_s == 0)
    return wrong_files("tls.crt: the end of the certificate's validity cannot be read");
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr) return {Code::kResourceExhausted, "OpenSSL gives no context"};
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // Tickets and sessions would keep a state for each client; an API server keeps its connections
  // instead.
  SSL_CTX_set_options(context.get(),
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // Idle connections free their buffers.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  if (Status status = use_certificates(context.get(), pair.certificate); !status.ok())
    return status;
  if (Status status = use_key(context.get(), pair.key); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  context_ = context;
  not_after_s_ = facts->validity.not_after_s;
  return {};
}

std::unique_ptr<http::Stream> TlsAcceptor::open(Fd socket) const {
  std::shared_ptr<SSL_CTX> context;
  // The context is shared: a rotation replaces the pointer, and a stream that has not begun keeps
  // its own.
  {
    const std::lock_guard lock(mutex_);
    context = context_;
  }
  if (context == nullptr) return nullptr;
  return std::make_unique<TlsStream>(std::move(socket), std::move(context));
}

}  // namespace larder::webhook
