// Fetch: many small GETs over plain HTTP at once, all bounded: how many at a time, how long each, how large an answer.
//
// For larderd's status in pods. A pod is a stranger: no redirect is followed, no proxy asked, nothing but HTTP spoken.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "shim/base/status.h"

namespace larder::reconcile {

class Fetch {
 public:
  static constexpr unsigned kAtOnce = 32;
  static constexpr unsigned kDeadlineMs = 2000;  // of one, from connect to the last byte

  // Calls back for each URL once, in the order of their ends, on the caller's thread. Ends early where `stop` is asked: those that
  // have not ended are not told of. `most_bytes`: of one answer.
  using OnAnswer = std::function<void(std::size_t index, Result<std::string> body)>;
  virtual ~Fetch() = default;
  virtual void get_all(std::span<const std::string> urls, std::size_t most_bytes, std::stop_token stop,
                       const OnAnswer& on_answer) = 0;

  // Thread-compatible.
  static std::unique_ptr<Fetch> make();
};

}  // namespace larder::reconcile
