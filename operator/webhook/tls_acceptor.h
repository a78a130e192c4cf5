// TlsAcceptor: makes TLS streams from accepted sockets, with the newest certificate. Thread-safe.
//
// TLS 1.2 or newer; only HTTP/1.1 by ALPN; no renegotiation, no resumption. A connection keeps its
// first certificate, and the next connection gets a new one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "operator/pki/certificates.h"
#include "sidecar/http/stream.h"

struct ssl_ctx_st;

namespace larder::webhook {

class TlsAcceptor {
 public:
  TlsAcceptor() = default;
  TlsAcceptor(const TlsAcceptor&) = delete;
  TlsAcceptor& operator=(const TlsAcceptor&) = delete;

  // Sets the certificate for new connections. An error describes a bad `pair`; the earlier
  // certificate stays.
  Status serve(const pki::KeyPair& pair);

  // Takes ownership of a non-blocking socket. Null before the first certificate.
  std::unique_ptr<http::Stream> open(Fd socket) const;

  bool ready() const { return not_after_s_ != 0; }
  // End of the certificate in seconds since 1970; 0: no certificate yet.
  std::int64_t not_after_s() const { return not_after_s_; }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_;  // shared with streams that have not begun
  std::atomic<std::int64_t> not_after_s_{0};
};

}  // namespace larder::webhook
