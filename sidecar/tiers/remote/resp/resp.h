// RESP, the protocol of Redis and Valkey, version 2: commands out, whole replies in. hiredis formats and parses; it is never given
// more than ReplyScanner has found to be one reply within its limits.
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

namespace larder::remote {

struct Reply {
  enum class Kind : std::uint8_t { kNil, kStatus, kError, kInteger, kBulk, kArray, kPayload };
  Kind kind = Kind::kNil;
  std::string text;          // kStatus, kError, kBulk
  std::int64_t integer = 0;  // kInteger; kPayload: how many bytes have come
  std::vector<Reply> elements;
};

std::string format_command(std::span<const std::string_view> words);

// A command one of whose words is `body_bytes` long and sent from where it lies, between these two.
struct Around {
  std::string before, after;
};
Around format_around(std::span<const std::string_view> before, std::size_t body_bytes, std::span<const std::string_view> after);

inline constexpr std::size_t kMaxLineBytes = 4096;
inline constexpr std::size_t kMaxBulkBytes = 64 << 10;  // of what is no payload
inline constexpr std::size_t kMaxElements = 16'384;     // of all arrays of one reply
inline constexpr std::size_t kMaxDepth = 4;
inline constexpr std::size_t kMaxReplyBytes = 1 << 20;
// Of one that is asked for as a long one: the map of a Cluster whose 16,384 slots alternate.
inline constexpr std::size_t kMaxLongElements = 1 << 19, kMaxLongReplyBytes = 16 << 20;

// Where a reply ends. Looks at each byte once, however small the pieces are in which it comes.
class ReplyScanner {
 public:
  enum class Found : std::uint8_t { kPart, kWhole, kWrong };
  // Whether the reply that begins may be a long one.
  void let_long(bool may) { long_ = may; }
  // `bytes` begin where the reply does, hold what has come of it so far, and may hold more; each call has at least as many.
  Found scan(std::span<const std::byte> bytes);
  std::size_t bytes() const { return at_; }   // of the whole reply
  const char* wrong() const { return why_; }  // what is wrong
  void reset() { *this = {}; }

 private:
  Found item(std::span<const std::byte> bytes, std::size_t line_end);
  Found fail(const char* why) {
    why_ = why;
    return Found::kWrong;
  }

  std::size_t at_ = 0;        // of the next item
  std::size_t searched_ = 0;  // no line ends before
  std::size_t elements_ = 0;
  bool long_ = false;
  std::vector<std::size_t> open_;  // arrays: elements still to come
  const char* why_ = "";
};

// The number of a line `$123` or `*123`, without its first byte and its end. Fails for what is none; -1 is one.
Result<std::int64_t> parse_length(std::string_view digits);

class ReplyParser {
 public:
  ReplyParser();
  ~ReplyParser();
  ReplyParser(const ReplyParser&) = delete;
  ReplyParser& operator=(const ReplyParser&) = delete;
  // REQUIRES: one whole reply, as a scanner found it. kDataLoss: it is none after all.
  Result<Reply> parse(std::span<const std::byte> whole);

 private:
  struct Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace larder::remote
