// Kubectl: runs the user's kubectl as a child process, without a shell, to reach the cluster.
//
// kubectl handles contexts, credentials (also of exec plug-ins), proxies and certificates, so that
// the plug-in has no API client and acts with the user's permissions. Each call has a deadline and
// a bounded answer. Thread-safe.
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

  // `options` precede the words of each call: "--context=blue". `program` is looked up in PATH.
  explicit Kubectl(Words options, std::string program = "kubectl",
                   std::chrono::milliseconds deadline = kDeadline)
      : options_(std::move(options)), program_(std::move(program)), deadline_(deadline) {}

  // Returns kubectl's standard output. kNotFound: no such object or kind. kPermissionDenied: the
  // user lacks the permission. kUnavailable: no API server answers, or no kubectl. kOutOfRange:
  // more than `most_bytes`. The error text is kubectl's.
  Result<std::string> ask(const Words& words, std::size_t most_bytes = kMostBytes) const;

  // The output of a call, successful or not.
  struct Heard {
    std::string out, err;
    Status ended;  // the status that ask() would return
  };
  struct Call {
    Words words;
    std::string input = {};  // standard input; empty: inherited
  };
  // An error: kubectl did not run, did not answer in time, or answered too much.
  Result<Heard> hear(const Call& call, std::size_t most_bytes = kMostBytes) const;
  // hear() for many calls, kAtOnce at once; results in the order of `calls`.
  std::vector<Result<Heard>> hear_all(const std::vector<Call>& calls,
                                      std::size_t most_bytes = kMostBytes) const;

  // Runs kubectl with inherited output and error streams. Kills kubectl at `deadline`. Fails unless
  // kubectl ends with success in time.
  Status show(const Words& words, std::chrono::milliseconds deadline) const;

  // ask() for many calls, kAtOnce at once; results in the order of `calls`.
  std::vector<Result<std::string>> ask_all(const std::vector<Words>& calls,
                                           std::size_t most_bytes = kMostBytes) const;

 private:
  Words command(const Words& words) const;

  const Words options_;
  const std::string program_;
  const std::chrono::milliseconds deadline_;
};

}  // namespace larder::kubectl
