#include "sidecar/net/tls_stream.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace larder::net {
namespace {

// The first error in the queue of OpenSSL; clears the queue.
std::string ssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "TLS failed" : std::string("TLS: ") + reason;
}

bool is_address(const std::string& name) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, name.c_str(), bytes) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

// The Unix time at which the certificate expires; INT64_MAX without a certificate.
std::int64_t expiry_of(const X509* certificate) {
  constexpr std::int64_t kDayS = 86'400;
  int days = 0, seconds = 0;
  if (certificate == nullptr ||
      ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(certificate)) != 1)
    return INT64_MAX;
  return ::time(nullptr) + days * kDayS + seconds;
}

// The Unix time at which the first certificate in the chain of the other side expires.
std::int64_t expiry_of_other(SSL* ssl) {
  std::int64_t first = INT64_MAX;
  const STACK_OF(X509)* const chain = SSL_get0_verified_chain(ssl);
  for (int i = 0; i < sk_X509_num(chain); ++i)
    first = std::min(first, expiry_of(sk_X509_value(chain, i)));
  return first;
}

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

class TlsStream final : public Stream {
 public:
  TlsStream(std::unique_ptr<Stream> socket, std::unique_ptr<SSL, Free> ssl, bool strict)
      : socket_(std::move(socket)), ssl_(std::move(ssl)), strict_(strict) {}

  int fd() const override { return socket_->fd(); }

  Result<bool> establish() override {
    if (!connected_) {
      const Result<bool> connected = socket_->establish();
      if (!connected.ok() || !*connected) return connected;
      connected_ = true;
    }
    wants_write_ = false;
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_.get());
    if (done == 1) {
      // OpenSSL checks the dates at the handshake alone. A connection between peers lives for days
      // and must not outlive its certificate.
      if (strict_) {
        expires_s_ = expiry_of_other(ssl_.get());
        own_expires_s_ = expiry_of(SSL_get_certificate(ssl_.get()));
      }
      return true;
    }
    const Moved moved = failed(done);
    if (moved.status.ok()) return false;
    // The verdict names the fault of the certificate ("certificate has expired"); OpenSSL's error
    // says only that verification failed.
    const long verdict = SSL_get_verify_result(ssl_.get());
    if (verdict == X509_V_OK) return moved.status;
    const std::string whose = SSL_is_server(ssl_.get()) == 1 ? "the client's certificate: "
                                                             : "the server's certificate: ";
    return Status(Code::kPermissionDenied, whose + X509_verify_cert_error_string(verdict));
  }

  Moved receive(std::span<std::byte> first, std::span<std::byte> second) override {
    if (expired()) return {0, expired_now()};
    Moved all;
    for (const std::span<std::byte>& into : {first, second}) {
      for (std::size_t at = 0; at < into.size();) {
        std::size_t got = 0;
        ERR_clear_error();
        const int done = SSL_read_ex(ssl_.get(), into.data() + at, into.size() - at, &got);
        if (done != 1) {
          all.status = failed(done).status;
          return all;
        }
        at += got;
        all.bytes += got;
      }
    }
    return all;
  }

  // Joins small parts, because each write is a separate record and system call. An unfinished write
  // is repeated from the same first byte with at least the same length, as OpenSSL requires.
  Moved send(std::span<const std::span<const std::byte>> parts) override {
    if (expired()) return {0, expired_now()};
    Moved all;
    wants_write_ = false;
    held_ = 0;
    for (std::size_t i = 0; i < parts.size();) {
      std::span<const std::byte> piece = parts[i];
      std::size_t taken = 1;
      if (piece.size() < kSmall) {
        std::size_t size = 0;
        for (taken = 0; i + taken < parts.size(); ++taken) {
          const std::span<const std::byte> part = parts[i + taken];
          if (part.size() >= kSmall || size + part.size() > together_.size()) break;
          std::memcpy(together_.data() + size, part.data(), part.size());
          size += part.size();
        }
        piece = std::span(together_).first(size);
      }
      i += taken;
      for (std::size_t at = 0; at < piece.size();) {
        std::size_t sent = 0;
        ERR_clear_error();
        const int done = SSL_write_ex(ssl_.get(), piece.data() + at, piece.size() - at, &sent);
        if (done != 1) {
          all.status = failed(done).status;
          held_ = std::min<std::size_t>(piece.size() - at,
                                        SSL3_RT_MAX_PLAIN_LENGTH);  // a record of it is made
          return all;
        }
        at += sent;
        all.bytes += sent;
      }
    }
    return all;
  }

  std::size_t held() const override { return held_; }
  bool wants_write() const override { return !connected_ ? socket_->wants_write() : wants_write_; }
  std::int64_t valid_s() const override {
    const std::int64_t first = std::min(expires_s_, own_expires_s_);
    return first == INT64_MAX ? first : std::max<std::int64_t>(first - ::time(nullptr), 0);
  }

 private:
  bool expired() const { return ::time(nullptr) >= expires_s_; }  // mutation: tls-expiry
  static Status expired_now() {
    return {Code::kPermissionDenied, "a certificate of the other side has expired"};
  }
  // Ok: not possible yet.
  Moved failed(int done) {
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ: return {};
      case SSL_ERROR_WANT_WRITE: wants_write_ = true; return {};
      case SSL_ERROR_ZERO_RETURN:
        return {0, {Code::kUnavailable, "the server closed the connection"}};
      case SSL_ERROR_SYSCALL:
        return {0, Status::from_errno(errno == 0 ? ECONNRESET : errno, "TLS")};
      default: return {0, {Code::kUnavailable, ssl_error()}};
    }
  }

  static constexpr std::size_t kSmall = 4096;

  std::unique_ptr<Stream> socket_;  // outlives ssl_, which uses the descriptor
  std::unique_ptr<SSL, Free> ssl_;
  const bool strict_;
  std::int64_t expires_s_ = INT64_MAX;  // Unix time, of the other side
  std::int64_t own_expires_s_ = INT64_MAX;
  bool connected_ = false;
  bool wants_write_ = false;
  std::size_t held_ = 0;
  std::array<std::byte, 16 << 10> together_;
};

Status wrong_file(const TlsOptions& options, const char* key, const std::string& path) {
  return {Code::kFailedPrecondition,
          options.section + "." + key + ": " + path + ": " + ssl_error()};
}

// Identifies a file and its last change, so that a rotated file is noticed.
struct Identity {
  dev_t device = 0;
  ino_t number = 0;
  off_t bytes = 0;
  std::int64_t changed_s = 0, changed_ns = 0;
  bool operator==(const Identity&) const = default;
};

// The default Identity for an empty path. Refuses anything but a regular file, for example a pipe:
// OpenSSL would wait for a writer.
Result<Identity> identity_of(const TlsOptions& options, const char* key, const std::string& path) {
  if (path.empty()) return Identity();
  const std::string what = options.section + "." + key + ": " + path;
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return Status::from_errno(errno, what);
  if (!S_ISREG(facts.st_mode)) return Status(Code::kFailedPrecondition, what + " is no file");
  return Identity{facts.st_dev, facts.st_ino, facts.st_size, facts.st_ctim.tv_sec,
                  facts.st_ctim.tv_nsec};
}

using Files = std::array<Identity, 3>;

Result<Files> files_of(const TlsOptions& options) {
  Files files;
  // The status change time finds each rotation, also one that keeps size and modification time.
  const std::pair<const char*, const std::string*> named[] = {{"ca_file", &options.ca_file},
                                                              {"cert_file", &options.cert_file},
                                                              {"key_file", &options.key_file}};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Result<Identity> identity = identity_of(options, named[i].first, *named[i].second);
    if (!identity.ok()) return identity.status();
    files[i] = *identity;
  }
  return files;
}

enum class Side { kClient, kServer };

Result<std::unique_ptr<SSL_CTX, Free>> make_context(const TlsOptions& options, Side side) {
  ERR_clear_error();
  const bool serves = side == Side::kServer;
  std::unique_ptr<SSL_CTX, Free> context(
      SSL_CTX_new(serves ? TLS_server_method() : TLS_client_method()));
  if (context == nullptr) return Status(Code::kInternal, ssl_error());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(),
                     SSL_VERIFY_PEER | (serves ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nullptr);
  if (serves) {  // no session is resumed: each connection checks the certificate of the client
    SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context.get(), 0);
  }
  SSL_CTX_set_default_passwd_cb(context.get(), [](char*, int, int, void*) {
    return 0;
  });  // else OpenSSL asks at the terminal
  // Partial writes: a record at a time, so that a slow receiver still shows progress. A moving
  // buffer: the bytes are the same, but small parts are joined anew in `together_`.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (options.ca_file.empty()) {
    if (SSL_CTX_set_default_verify_paths(context.get()) != 1)
      return Status(Code::kFailedPrecondition, ssl_error());
  } else if (SSL_CTX_load_verify_locations(context.get(), options.ca_file.c_str(), nullptr) != 1) {
    return wrong_file(options, "ca_file", options.ca_file);
  }
  if (!options.cert_file.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context.get(), options.cert_file.c_str()) != 1)
      return wrong_file(options, "cert_file", options.cert_file);
    if (SSL_CTX_use_PrivateKey_file(context.get(), options.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
      return wrong_file(options, "key_file", options.key_file);
  }
  return context;
}

// The context of the files, kept while the files are unchanged: an unreachable server is tried ten
// times a second, and a CA file of a hundred certificates takes milliseconds to read. The
// certificates of the system are read again each time, because their files are not known.
Result<SSL_CTX*> context_of(const TlsOptions& options, Side side) {
  thread_local std::unique_ptr<SSL_CTX, Free> kept;
  thread_local Files kept_files;
  thread_local Side kept_side = Side::kClient;
  const Result<Files> files = files_of(options);
  if (!files.ok()) return files.status();
  if (kept != nullptr && !options.ca_file.empty() && *files == kept_files && side == kept_side)
    return kept.get();
  Result<std::unique_ptr<SSL_CTX, Free>> context = make_context(options, side);
  if (!context.ok()) return context.status();
  kept = *std::move(context);
  kept_files = *files;
  kept_side = side;
  return kept.get();
}

// The name in the certificate of the other side; a client also tells the name to the server.
bool expect_name(SSL* ssl, const std::string& name, bool strict) {
  // A certificate has addresses in another field than names.
  if (is_address(name))
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str()) == 1;
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                             (strict ? X509_CHECK_FLAG_NEVER_CHECK_SUBJECT : 0U));
  if (SSL_is_server(ssl) == 1) return SSL_set1_host(ssl, name.c_str()) == 1;
  // SSL_set_tlsext_host_name() without the cast in its macro.
  const long named = SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                              const_cast<char*>(name.c_str()));
  return named == 1 && SSL_set1_host(ssl, name.c_str()) == 1;
}

}  // namespace

Result<std::unique_ptr<Stream>> open_tls_stream(std::unique_ptr<Stream> socket,
                                                const TlsOptions& options,
                                                const std::string& host) {
  const Result<SSL_CTX*> context = context_of(options, Side::kClient);
  if (!context.ok()) return context.status();
  std::unique_ptr<SSL, Free> ssl(SSL_new(*context));  // keeps the context
  const std::string& name = options.server_name.empty() ? host : options.server_name;
  if (ssl == nullptr || !expect_name(ssl.get(), name, options.strict) ||
      SSL_set_fd(ssl.get(), socket->fd()) != 1)
    return Status(Code::kInternal, ssl_error());
  SSL_set_connect_state(ssl.get());
  return std::unique_ptr<Stream>(
      std::make_unique<TlsStream>(std::move(socket), std::move(ssl), options.strict));
}

Result<std::unique_ptr<Stream>> accept_tls_stream(std::unique_ptr<Stream> socket,
                                                  const TlsOptions& options) {
  const Result<SSL_CTX*> context = context_of(options, Side::kServer);
  if (!context.ok()) return context.status();
  std::unique_ptr<SSL, Free> ssl(SSL_new(*context));
  if (ssl == nullptr) return Status(Code::kInternal, ssl_error());
  SSL_set_accept_state(ssl.get());
  if (!expect_name(ssl.get(), options.server_name, options.strict) ||
      SSL_set_fd(ssl.get(), socket->fd()) != 1)
    return Status(Code::kInternal, ssl_error());
  return std::unique_ptr<Stream>(
      std::make_unique<TlsStream>(std::move(socket), std::move(ssl), options.strict));
}

Status check_tls_files(const TlsOptions& options) {
  if (const Result<Files> files = files_of(options); !files.ok()) return files.status();
  return make_context(options, Side::kClient).status();
}

}  // namespace larder::net
