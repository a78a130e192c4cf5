// MemoryFile: bytes under a path that only this process can open and that never reach a disk. For
// passwords and keys of libraries that read files. The file ends with the object.
// Thread-compatible.
#pragma once

#include <string>
#include <string_view>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::reconcile {

class MemoryFile {
 public:
  static Result<MemoryFile> of(std::string_view bytes);
  // "/proc/self/fd/7". Each open starts at the beginning, as for a regular file.
  const std::string& path() const { return path_; }

 private:
  MemoryFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
};

}  // namespace larder::reconcile
