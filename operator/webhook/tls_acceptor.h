// TlsAcceptor: makes TLS streams of accepted sockets, with the newest certificate that it was given. Thread-safe.
//
// TLS 1.2 or newer, HTTP/1.1 alone by ALPN, no renegotiation, no resumption. A connection keeps the certificate with which it
// began; a new one is served from the next connection on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "operator/webhook/certificates.h"
#include "sidecar/http/stream.h"

struct ssl_ctx_st;

namespace larder::webhook {

class TlsAcceptor {
 public:
  TlsAcceptor() = default;
  TlsAcceptor(const TlsAcceptor&) = delete;
  TlsAcceptor& operator=(const TlsAcceptor&) = delete;

  // From now on. What is wrong with `pair` is said, and the one before stays.
  Status serve(const KeyPair& pair);

  // Takes a non-blocking socket over. Nothing before the first certificate.
  std::unique_ptr<http::Stream> open(Fd socket) const;

  bool ready() const { return not_after_s_ != 0; }
  // When the certificate ends, in seconds since 1970; 0: there is none yet.
  std::int64_t not_after_s() const { return not_after_s_; }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_;  // shared with whoever is just opening a stream of it
  std::atomic<std::int64_t> not_after_s_{0};
};

}  // namespace larder::webhook
