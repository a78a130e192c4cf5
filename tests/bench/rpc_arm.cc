#include "tests/bench/rpc_arm.h"

#include <sys/socket.h>

#include <cerrno>

namespace larder::bench {
namespace {

constexpr std::size_t kMaxHashes = 1024;

// One message, or less than 1 when the other end is gone.
ssize_t receive(int socket, void* data, std::size_t bytes, Waiting waiting) {
  for (;;) {
    const ssize_t got =
        ::recv(socket, data, bytes, waiting == Waiting::kSpinning ? MSG_DONTWAIT : 0);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR)) return got;
  }
}

}  // namespace

void serve_lookups(int socket, SmallClient& client, Waiting waiting) {
  std::vector<protocol::BlockHash> hashes(kMaxHashes);
  for (;;) {
    const ssize_t got = receive(socket, hashes.data(), hashes.size() * sizeof(hashes[0]), waiting);
    if (got <= 0) return;
    const client::Hashes asked{reinterpret_cast<const std::uint8_t*>(hashes.data()),
                               sizeof(hashes[0]),
                               static_cast<std::size_t>(got) / sizeof(hashes[0])};
    const std::uint64_t present = client.client().lookups().present(asked);
    if (::send(socket, &present, sizeof(present), MSG_NOSIGNAL) < 0) return;
  }
}

std::uint64_t ask(int socket, const std::vector<protocol::BlockHash>& hashes, Waiting waiting) {
  std::uint64_t present = 0;
  if (::send(socket, hashes.data(), hashes.size() * sizeof(hashes[0]), MSG_NOSIGNAL) < 0) return 0;
  return receive(socket, &present, sizeof(present), waiting) == sizeof(present) ? present : 0;
}

}  // namespace larder::bench
