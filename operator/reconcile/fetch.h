// Fetch: many small GETs over plain HTTP, bounded in number, time and size of answers.
//
// For the status of larderd in pods. Pods are not trusted: Fetch follows no redirect, uses no
// proxy, and speaks only HTTP.
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
  static constexpr unsigned kDeadlineMs = 2000;  // of one GET, from connect to the last byte

  // Calls `on_answer` once for each URL, in order of completion, on the caller's thread. A
  // requested `stop` ends the call early, without callbacks for the rest. `most_bytes`: of one
  // answer.
  using OnAnswer = std::function<void(std::size_t index, Result<std::string> body)>;
  virtual ~Fetch() = default;
  virtual void get_all(std::span<const std::string> urls, std::size_t most_bytes,
                       std::stop_token stop, const OnAnswer& on_answer) = 0;

  // Thread-compatible.
  static std::unique_ptr<Fetch> make();
};

}  // namespace larder::reconcile
