// Retry: when to try to attach again after a try that failed.
//
// A larderd that is away or starting is tried again and again in quick succession, so that it is found as soon as it is back. A refusal
// that lasts until somebody acts or a place is free (all sessions taken, another version, no permission) is tried seldom: a second
// later, then after twice as long each time, up to a minute, spread at random so that the processes of one engine do not come all at
// once. A change of the socket's file (another larderd, another mode or owner) ends such a pause at once. Belongs to one thread.
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

  // Whether the same try fails for as long as nobody changes something.
  static bool is_refusal(Code code) { return code != Code::kUnavailable && code != Code::kDeadlineExceeded; }

  // The next pause, after a try or a session that ended so.
  std::uint32_t next_ms(Code code);
  // A session has lasted.
  void attached() { next_ms_ = refused_ms_ = 0; }

 private:
  std::uint32_t next_ms_ = 0, refused_ms_ = 0;  // the last pauses
  std::minstd_rand random_;
};

// What tells one socket file from the next in its place, and from itself with another owner or mode.
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
