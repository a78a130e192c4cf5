// Retry: the pause after a failed attempt to attach.
//
// While larderd is away or starting, the pauses are short, so that an engine finds larderd soon
// after the start. A refusal lasts until an operator acts or a place is free (all sessions taken,
// another version, no permission). After a refusal the pause is 1 s and doubles up to 60 s, less a
// random part, so that the processes of one engine do not all come at once. A change of the
// socket's file (another larderd, another mode or owner) ends such a pause early (Control). Owned
// by one thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <random>
#include <string>

#include "shim/base/status.h"

namespace larder::client {

class Retry {
 public:
  static constexpr std::uint32_t kFirstMs = 50, kLastMs = 250;
  static constexpr std::uint32_t kFirstRefusedMs = 1000, kLastRefusedMs = 60'000;

  explicit Retry(std::uint32_t seed) : random_(seed) {}

  // Whether the same attempt fails again until something changes.
  static bool is_refusal(Code code) {
    return code != Code::kUnavailable && code != Code::kDeadlineExceeded;
  }

  // The next pause, after an attempt or a session that ended with `code`.
  std::uint32_t next_ms(Code code);
  // Call this after a session that lasted: pauses are short again.
  void attached() { next_ms_ = refused_ms_ = 0; }

 private:
  std::uint32_t next_ms_ = 0, refused_ms_ = 0;  // the last pauses
  std::minstd_rand random_;
};

// The identity of a socket file: differs after a new bind and after a change of owner or mode.
class SocketFile {
 public:
  static SocketFile at(const std::string& path);
  bool operator==(const SocketFile&) const = default;

 private:
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::int64_t changed_s_ = 0, changed_ns_ = 0;
};

}  // namespace larder::client
