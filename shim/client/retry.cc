#include "shim/client/retry.h"

#include <algorithm>

namespace larder::client {

std::uint32_t Retry::next_ms(Code code) {
  if (!is_refusal(code)) {
    next_ms_ = next_ms_ == 0 ? kFirstMs : std::min(next_ms_ * 2, kLastMs);
    return next_ms_;
  }
  refused_ms_ = refused_ms_ == 0 ? kFirstRefusedMs : std::min(refused_ms_ * 2, kLastRefusedMs);
  // The workers of one engine were refused together. The random part spreads the next attempts.
  const std::uint32_t quarter = refused_ms_ / 4;
  return refused_ms_ - quarter + std::uniform_int_distribution<std::uint32_t>(0, quarter)(random_);
}

SocketFile SocketFile::at(const std::string& path) {
  SocketFile file;
  struct stat info {};
  // A missing file is a state too: a new file ends the pause.
  if (::stat(path.c_str(), &info) != 0) return file;
  file.device_ = info.st_dev;
  file.inode_ = info.st_ino;
  file.changed_s_ = info.st_ctim.tv_sec;
  file.changed_ns_ = info.st_ctim.tv_nsec;
  return file;
}

}  // namespace larder::client
