// Stream: the bytes of one connection, without blocking. A socket as it is here; the operator has one with TLS behind the same door.
// Owned by the endpoint's thread.
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
    std::size_t bytes = 0;  // more than none: some were moved
    short awaits = 0;       // none were: POLLIN or POLLOUT, for which it waits; 0: the connection is over
  };

  virtual ~Stream() = default;
  virtual int fd() const = 0;
  // The client has said what it takes to begin: until then it costs a descriptor and next to no memory.
  virtual bool begun() const { return true; }
  // At most one call of the system for data. REQUIRES of read: room for kMostRecord bytes, so that nothing stays in the stream
  // which poll() does not know of.
  virtual Moved read(std::span<char> into) = 0;
  virtual Moved write(std::string_view bytes) = 0;
  // Says to the client that no more comes.
  virtual void finish() = 0;
};

inline constexpr std::size_t kMostRecord = 16 * 1024;  // of TLS

// Makes a stream of an accepted socket; nothing: this client cannot be served now.
using OpenStream = std::function<std::unique_ptr<Stream>(Fd)>;

std::unique_ptr<Stream> open_plain_stream(Fd socket);

}  // namespace larder::http
