// StopFd: a stop as a descriptor for poll(). Readable once the stop is requested. Thread-safe.
#pragma once

#include <sys/eventfd.h>

#include <stop_token>
#include <utility>

#include "shim/base/fd.h"

namespace larder::base {

class StopFd {
 public:
  explicit StopFd(std::stop_token stop)
      : fd_(stop.stop_possible() ? ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1),
        callback_(std::move(stop), Write{*this}) {}

  // -1 if no stop is possible or no descriptor is left; poll() ignores -1.
  int get() const { return fd_.get(); }

 private:
  struct Write {
    const StopFd& to;
    void operator()() const { ::eventfd_write(to.get(), 1); }
  };

  const Fd fd_;
  const std::stop_callback<Write> callback_;  // last: it may be called at once
};

}  // namespace larder::base
