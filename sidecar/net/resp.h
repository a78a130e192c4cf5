// RESP, the protocol of Redis and Valkey, version 2: commands out, whole replies in. hiredis
// formats and parses. hiredis receives only whole replies that ReplyScanner found to be within the
// limits.
//
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::net {

struct Reply {
  enum class Kind : std::uint8_t { kNil, kStatus, kError, kInteger, kBulk, kArray, kPayload };
  Kind kind = Kind::kNil;
  std::string text;          // kStatus, kError, kBulk
  std::int64_t integer = 0;  // kInteger; kPayload: length in bytes
  std::vector<Reply> elements;
};

std::string format_command(std::span<const std::string_view> words);

// The parts of a command before and after a body. The body is sent from the memory of the caller.
struct Around {
  std::string before, after;
};
Around format_around(std::span<const std::string_view> before, std::size_t body_bytes,
                     std::span<const std::string_view> after);

inline constexpr std::size_t kMaxLineBytes = 4096;
inline constexpr std::size_t kMaxBulkBytes = 64 << 10;  // of a string outside payloads
inline constexpr std::size_t kMaxElements = 16'384;     // sum over all arrays of one reply
inline constexpr std::size_t kMaxDepth = 4;
inline constexpr std::size_t kMaxReplyBytes = 1 << 20;
// The limits of a long reply (Expect::long_reply): the map of a Cluster with 16,384 alternating
// slots.
inline constexpr std::size_t kMaxLongElements = 1 << 19, kMaxLongReplyBytes = 16 << 20;

// Finds the end of a reply. Scans each byte once, even if the reply arrives in small pieces.
class ReplyScanner {
 public:
  enum class Found : std::uint8_t { kPart, kWhole, kWrong };
  // Whether the reply that begins may be a long reply.
  void let_long(bool may) { long_ = may; }
  // `bytes` start with the reply, and may hold bytes after it. `bytes` grow or stay equal from call
  // to call.
  Found scan(std::span<const std::byte> bytes);
  std::size_t bytes() const { return at_; }   // length of the whole reply
  const char* wrong() const { return why_; }  // the reason of kWrong
  void reset() { *this = {}; }

 private:
  Found item(std::span<const std::byte> bytes, std::size_t line_end);
  Found fail(const char* why) {
    why_ = why;
    return Found::kWrong;
  }

  std::size_t at_ = 0;        // start of the next item
  std::size_t searched_ = 0;  // no end of line before this position
  std::size_t elements_ = 0;
  bool long_ = false;
  std::vector<std::size_t> open_;  // open arrays: missing elements
  const char* why_ = "";
};

// The length of a line `$123` or `*123`, given without the first byte and the end of line. -1 is
// valid.
Result<std::int64_t> parse_length(std::string_view digits);

class ReplyParser {
 public:
  ReplyParser();
  ~ReplyParser();
  ReplyParser(const ReplyParser&) = delete;
  ReplyParser& operator=(const ReplyParser&) = delete;
  // REQUIRES: one whole reply, found by ReplyScanner. kDataLoss: hiredis cannot parse the reply.
  Result<Reply> parse(std::span<const std::byte> whole);

 private:
  struct Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace larder::net
