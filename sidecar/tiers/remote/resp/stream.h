// Stream: bytes to and from a server, never waiting: a plain socket, or TLS over one. Owned by one thread.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::remote {

struct Moved {
  std::size_t bytes = 0;
  Status status;  // not ok: the stream is at its end, or broken; what was moved before counts
};

class Stream {
 public:
  virtual ~Stream() = default;

  virtual int fd() const = 0;
  // Goes on with connecting and shaking hands. True: done; false: not yet, to be called again once the descriptor is ready.
  virtual Result<bool> establish() = 0;
  // Fills `first`, then `second`. Fewer bytes than room: nothing more for now.
  virtual Moved receive(std::span<std::byte> first, std::span<std::byte> second) = 0;
  // Fewer bytes than given: no more for now. What follows must be the same bytes.
  virtual Moved send(std::span<const std::span<const std::byte>> parts) = 0;
  // Bytes after those that send() has counted which will be sent as they were all the same, and counted later.
  virtual std::size_t held() const { return 0; }
  // Whether it must become writable before it can go on; readable is always waited for.
  virtual bool wants_write() const = 0;
};

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  std::string text;  // for people
};

// Of a path; kInvalidArgument: it does not fit.
Result<Address> unix_address(const std::string& path);

// What was sent on a connected socket and has not reached the other machine, or process, yet.
std::size_t waiting_bytes(int fd);

// Begins to connect.
Result<std::unique_ptr<Stream>> open_socket_stream(const Address& address);

}  // namespace larder::remote
