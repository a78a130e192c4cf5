#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "sidecar/http/stream.h"

namespace larder::http {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Fd socket) : socket_(std::move(socket)) {}

  int fd() const override { return socket_.get(); }
  Moved read(std::span<char> into) override {
    // The socket is non-blocking: EAGAIN means "wait for POLLIN".
    return moved(::recv(fd(), into.data(), into.size(), 0), POLLIN);
  }
  Moved write(std::string_view bytes) override {
    // MSG_NOSIGNAL: a send to a client that went away fails with EPIPE, and raises no signal.
    return moved(::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), POLLOUT);
  }
  void finish() override { ::shutdown(fd(), SHUT_WR); }

 private:
  // 0 bytes from recv() is the end of the stream. `awaits` 0 tells the connection to end.
  static Moved moved(ssize_t count, short awaits) {
    if (count > 0) return {static_cast<std::size_t>(count), 0};
    return {0, count < 0 && (errno == EAGAIN || errno == EINTR) ? awaits : short{0}};
  }

  Fd socket_;
};

}  // namespace

std::unique_ptr<Stream> open_plain_stream(Fd socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace larder::http
