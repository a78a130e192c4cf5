// read_and_hash FILE...: the loop that bench weights compares with: read(), 1 MiB at a time, and
// XXH3-128. Prints one line a file, its digest and its path, and then the seconds of all files
// together: by the clock, and of the processor.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

constexpr std::size_t kReadBytes = 1 << 20;

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

bool read_and_hash(const char* path, unsigned char* buffer, XXH128_canonical_t& digest) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  ssize_t got = 0;
  while ((got = ::read(fd, buffer, kReadBytes)) > 0)
    XXH3_128bits_update(&hash, buffer, static_cast<std::size_t>(got));
  ::close(fd);
  XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(&hash));
  return got == 0;
}

}  // namespace

int main(int argc, char** argv) {
  // at a page: read() is three times as fast as into any 16 bytes
  alignas(4096) static unsigned char buffer[kReadBytes];
  const double began = seconds_of(CLOCK_MONOTONIC),
               began_cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 1; i < argc; ++i) {
    XXH128_canonical_t digest;
    if (!read_and_hash(argv[i], buffer, digest)) {
      std::perror(argv[i]);
      return 1;
    }
    for (const unsigned char byte : digest.digest) std::printf("%02x", byte);
    std::printf(" %s\n", argv[i]);
  }
  std::printf("%.9f %.9f\n", seconds_of(CLOCK_MONOTONIC) - began,
              seconds_of(CLOCK_PROCESS_CPUTIME_ID) - began_cpu);
  return 0;
}
