// Status and Result<T>: the one error type of Larder, on both sides of the socket.
//
// The codes travel in ERROR messages, so their numbers are part of the protocol and never change.
// Thread-compatible values.
#pragma once

#include <cassert>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace larder {

enum class Code : std::uint32_t {
  kOk = 0,
  kInvalidArgument = 1,     // bug in the caller or bad input: do not retry
  kNotFound = 2,            // a miss
  kAlreadyExists = 3,       // another one was first: no work to do
  kOutOfRange = 4,          // over a limit: ask for less
  kResourceExhausted = 5,   // no space now: may be retried later
  kUnavailable = 6,         // the other side is gone or not ready: retried by itself
  kDeadlineExceeded = 7,    // took too long: treat as a miss
  kFailedPrecondition = 8,  // wrong state or order: give up on this session
  kDataLoss = 9,            // bytes do not match their checksum: recompute
  kUnsupported = 10,        // this version or engine setting is not served: run without the cache
  kPermissionDenied = 11,   // file mode, seccomp, ownership: tell the user
  kInternal = 12,           // an operating system call failed in an unforeseen way: see the text
};

constexpr std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kNotFound: return "not found";
    case Code::kAlreadyExists: return "already exists";
    case Code::kOutOfRange: return "out of range";
    case Code::kResourceExhausted: return "resource exhausted";
    case Code::kUnavailable: return "unavailable";
    case Code::kDeadlineExceeded: return "deadline exceeded";
    case Code::kFailedPrecondition: return "failed precondition";
    case Code::kDataLoss: return "data loss";
    case Code::kUnsupported: return "unsupported";
    case Code::kPermissionDenied: return "permission denied";
    case Code::kInternal: return "internal";
  }
  return "unknown code";
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}

  // A system call's failure: `what` names the call and its object, `err` is its errno.
  static Status from_errno(int err, std::string what);

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }
  std::string to_string() const {
    return text_.empty() ? std::string(code_name(code_))
                         : std::string(code_name(code_)) + ": " + text_;
  }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

// A value or the reason for a missing value. REQUIRES: ok() before value() or operator*.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {
    assert(!status_.ok());
  }  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

inline Status Status::from_errno(int err, std::string what) {
  Code code = Code::kInternal;
  switch (err) {
    case ENOENT:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN: code = Code::kUnavailable; break;
    case EACCES:
    case EPERM: code = Code::kPermissionDenied; break;
    case ENOSPC:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN: code = Code::kResourceExhausted; break;
    case ETIMEDOUT: code = Code::kDeadlineExceeded; break;
    case EEXIST: code = Code::kAlreadyExists; break;
    default: break;
  }
  return {code, std::move(what) + ": " + std::generic_category().message(err)};
}

}  // namespace larder
