// Stream: the bytes of one connection, without blocking. This room has a stream over a plain
// socket; the operator has a stream with TLS. Owned by the thread of the endpoint.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "shim/base/fd.h"

namespace larder::http {

class Stream {
 public:
  struct Moved {
    std::size_t bytes = 0;  // the number of bytes moved
    // If no byte was moved: POLLIN or POLLOUT to wait for; 0: the connection is over.
    short awaits = 0;
  };

  virtual ~Stream() = default;
  virtual int fd() const = 0;
  // Whether the client has sent its first message (TLS: the hello). Before that a client costs one
  // descriptor and almost no memory.
  virtual bool begun() const { return true; }
  // read() and write() make at most one system call for data. REQUIRES of read(): room for
  // kMostRecord bytes, so that the stream keeps no decrypted bytes that poll() cannot see.
  virtual Moved read(std::span<char> into) = 0;
  virtual Moved write(std::string_view bytes) = 0;
  // Tells the client that no more bytes follow.
  virtual void finish() = 0;
};

inline constexpr std::size_t kMostRecord = 16 * 1024;  // of TLS

// Makes a stream of an accepted socket. nullptr: this client cannot be served now.
using OpenStream = std::function<std::unique_ptr<Stream>(Fd)>;

std::unique_ptr<Stream> open_plain_stream(Fd socket);

}  // namespace larder::http
