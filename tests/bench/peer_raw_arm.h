// The plain loop of bench-peer: the best that one connection of this machine gives, over TCP or
// over TLS with certificates of both sides. Four requests are open, and one call receives each
// whole chunk.
//
// Thread-compatible. Failures throw std::runtime_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/net/endpoint.h"

struct ssl_ctx_st;
struct ssl_st;

namespace larder::bench {

// A certificate that is its own authority, in files that end with the object.
class OwnCertificate {
 public:
  OwnCertificate();
  ~OwnCertificate();
  OwnCertificate(const OwnCertificate&) = delete;
  OwnCertificate& operator=(const OwnCertificate&) = delete;

  // As larderd of one pool have them.
  net::TlsOptions options() const;

 private:
  std::string folder_;
};

// A blocking connection, over TLS if options.enabled.
class RawConnection {
 public:
  enum class Side { kAsks, kServes };
  RawConnection(Fd socket, const net::TlsOptions& options, Side side);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // False: the other side ended the connection.
  bool send(std::span<const std::byte> bytes);
  bool receive(std::span<std::byte> bytes);

 private:
  Fd socket_;
  ssl_ctx_st* context_ = nullptr;
  ssl_st* ssl_ = nullptr;
};

// Sends the chunk of each number that is asked for; does not return.
void serve_raw(std::uint16_t port, const std::vector<std::vector<std::byte>>& chunks,
               const net::TlsOptions& options);

class RawArm {
 public:
  RawArm(std::uint16_t port, const net::TlsOptions& options);
  // Reads as many chunks as slots, from this number in the server's list on.
  void read(std::uint32_t first, std::span<const std::span<std::byte>> slots);

 private:
  std::unique_ptr<RawConnection> connection_;
};

}  // namespace larder::bench
