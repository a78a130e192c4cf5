// read_and_hash FILE...: the loop that bench weights compares with: read(), 1 MiB at a time, and XXH3-128. Prints one line a file, its
// digest and its path, and then "SECONDS", of all files together.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "shim/protocol/stream_hash.h"

namespace {

constexpr std::size_t kReadBytes = 1 << 20;

bool read_and_hash(const char* path, unsigned char* buffer, larder::protocol::StreamHash::Digest& digest) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  larder::protocol::StreamHash hash;
  ssize_t got = 0;
  while ((got = ::read(fd, buffer, kReadBytes)) > 0) hash.update(buffer, static_cast<std::size_t>(got));
  ::close(fd);
  digest = hash.digest();
  return got == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto buffer = std::make_unique_for_overwrite<unsigned char[]>(kReadBytes);
  double seconds = 0;
  for (int i = 1; i < argc; ++i) {
    larder::protocol::StreamHash::Digest digest;
    const auto begin = std::chrono::steady_clock::now();
    if (!read_and_hash(argv[i], buffer.get(), digest)) {
      std::perror(argv[i]);
      return 1;
    }
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (const std::uint8_t byte : digest) std::printf("%02x", byte);
    std::printf(" %s\n", argv[i]);
  }
  std::printf("%.9f\n", seconds);
  return 0;
}
