// The log lines of an engine, from any thread. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "cuda/copy_engine.h"

namespace larder::copy::testing_support {

class Said {
 public:
  Log log() const {
    return [this](std::string_view level, std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(std::string(level) + " " + std::string(text));
    };
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    lines_.clear();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::string> lines_;
};

}  // namespace larder::copy::testing_support
