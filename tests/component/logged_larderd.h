// LoggedLarderd: a larderd with a log file that a test counts, and the bound of an idle larderd's
// log. Owned by one thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "tests/component/larderd_process.h"
#include "tests/long_form.h"

namespace larder::test {

class LoggedLarderd {
 public:
  // `size` of the memory, `more` lines of the configuration.
  LoggedLarderd(const std::string& size, const std::string& more) {
    char pattern[] = "/tmp/larder-logged-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    const std::string program = folder_ + "/larderd";
    std::ofstream(program) << "#!/bin/sh\nexec " << LARDERD_PATH << " \"$@\" 2>> " << folder_
                           << "/log\n";
    ::chmod(program.c_str(), 0755);
    larderd_ = std::make_unique<LarderdProcess>(size, "info", program, more);
  }
  ~LoggedLarderd() {
    larderd_.reset();
    std::filesystem::remove_all(folder_);
  }
  LarderdProcess* operator->() { return larderd_.get(); }
  // To the backend.
  std::int64_t sent_bytes() const {
    return larderd_->status_number({"backend", "device", "written_bytes"});
  }
  std::int64_t stored() const { return larderd_->status_number({"backend", "puts", "ok"}); }
  std::string reason() const { return larderd_->status_text({"backend", "reason"}); }
  bool falls_back() const {
    for (const char* number : {"0", "1", "2", "3"})
      if (larderd_->status_text({"fallbacks", number, "kind"}) == "backend") return true;
    return false;
  }
  std::string log() const {
    std::ifstream file(folder_ + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string folder_;
  std::unique_ptr<LarderdProcess> larderd_;
};

inline std::size_t lines_of(const std::string& log) {
  return static_cast<std::size_t>(std::ranges::count(log, '\n'));
}

// The time for watching a log without activity: seconds.
inline int idle_seconds() {
  return by_form(8, 60);
}

// The bound of the long form: 10 lines, and 1 MB sent, in 60 s. Prints the figures.
inline void expect_few(const std::string& what, std::size_t lines, std::int64_t sent_bytes,
                       const std::string& log) {
  std::printf("%s: %zu lines, %lld bytes sent in %d s idle\n", what.c_str(), lines,
              static_cast<long long>(sent_bytes), idle_seconds());
  EXPECT_LE(lines, static_cast<std::size_t>(by_form(2, 10))) << log;
  EXPECT_LE(sent_bytes, 1'000'000 * idle_seconds() / 60);
}

}  // namespace larder::test
