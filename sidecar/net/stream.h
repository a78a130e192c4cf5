// Stream: bytes to and from a server, without waiting: a plain socket, or TLS over a socket. Owned
// by one thread.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::net {

struct Moved {
  std::size_t bytes = 0;
  Status status;  // not ok: the stream ended or broke; `bytes` were moved before
};

class Stream {
 public:
  virtual ~Stream() = default;

  virtual int fd() const = 0;
  // Continues the connection and the TLS handshake. True: done. False: call again once the
  // descriptor is ready.
  virtual Result<bool> establish() = 0;
  // Fills `first`, then `second`. Fewer bytes than room: no more bytes for now.
  virtual Moved receive(std::span<std::byte> first, std::span<std::byte> second) = 0;
  // Fewer bytes than given: no room for now. The next call must start with the rest of the same
  // bytes.
  virtual Moved send(std::span<const std::span<const std::byte>> parts) = 0;
  // Bytes that send() took but did not count yet: sent unchanged, and counted by a later send().
  virtual std::size_t held() const { return 0; }
  // Whether the stream waits for a writable descriptor; the caller always waits for a readable
  // descriptor.
  virtual bool wants_write() const = 0;
  // How many more seconds the certificates of both sides are valid; INT64_MAX without strict TLS.
  virtual std::int64_t valid_s() const { return INT64_MAX; }
};

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  std::string text;  // for people
};

// The address of a path. kInvalidArgument: the path is empty or too long.
Result<Address> unix_address(const std::string& path);

// The number of sent bytes of a connected socket that did not reach the other machine or process
// yet.
std::size_t waiting_bytes(int fd);

// Over a connected, non-blocking socket. Sets the options of the socket.
std::unique_ptr<Stream> stream_over(Fd socket);

// Starts to connect.
Result<std::unique_ptr<Stream>> open_socket_stream(const Address& address);

}  // namespace larder::net
