// MemoryFile: bytes under a path that only this process can open and that no disk ever has: for passwords and keys that a library
// wants as files. Gone with the object. Thread-compatible.
#pragma once

#include <string>
#include <string_view>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::reconcile {

class MemoryFile {
 public:
  static Result<MemoryFile> of(std::string_view bytes);
  // "/proc/self/fd/7"; opens as a regular file, from its beginning each time.
  const std::string& path() const { return path_; }

 private:
  MemoryFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
};

}  // namespace larder::reconcile
