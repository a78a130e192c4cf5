// Kubectl: the user's own kubectl as the way to the cluster, run as a child process, without a shell.
//
// So contexts, credentials (also those of exec plug-ins), proxies and certificates are exactly what the user has, and larderctl needs no
// client of the API server. Each call ends by its deadline and its answer is bounded. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::kubectl {

using Words = std::vector<std::string>;

class Kubectl {
 public:
  static constexpr std::size_t kMostBytes = 8u << 20;  // of an answer
  static constexpr std::chrono::milliseconds kDeadline{30'000};
  static constexpr std::size_t kAtOnce = 8;  // processes

  // `options` stand before each call's words: "--context=blue". `program` is looked up in PATH.
  explicit Kubectl(Words options, std::string program = "kubectl", std::chrono::milliseconds deadline = kDeadline)
      : options_(std::move(options)), program_(std::move(program)), deadline_(deadline) {}

  // Its standard output. kNotFound: there is no such object, or the API server knows no such kind; kPermissionDenied: the user may
  // not; kUnavailable: no API server answers, or there is no kubectl; kOutOfRange: more than `most_bytes`. The text is kubectl's own.
  Result<std::string> ask(const Words& words, std::size_t most_bytes = kMostBytes) const;

  // What it said, whether or not it ended well.
  struct Heard {
    std::string out, err;
    Status ended;  // as of ask()
  };
  struct Call {
    Words words;
    std::string input = {};  // its standard input; empty: larderctl's own
  };
  // An error: it could not be run, gave no answer in time, or too long a one.
  Result<Heard> hear(const Call& call, std::size_t most_bytes = kMostBytes) const;
  // The same of many, kAtOnce at once, in their order.
  std::vector<Result<Heard>> hear_all(const std::vector<Call>& calls, std::size_t most_bytes = kMostBytes) const;

  // Runs it for the user: what it writes goes where larderctl's own goes, also its errors. Fails where it does not end well by
  // `deadline`, in which it is killed.
  Status show(const Words& words, std::chrono::milliseconds deadline) const;

  // The same as ask() of many, kAtOnce at once, in their order.
  std::vector<Result<std::string>> ask_all(const std::vector<Words>& calls, std::size_t most_bytes = kMostBytes) const;

 private:
  Words command(const Words& words) const;

  const Words options_;
  const std::string program_;
  const std::chrono::milliseconds deadline_;
};

}  // namespace larder::kubectl
