#include <algorithm>
#include <charconv>
#include <cstring>

#include "sidecar/net/resp.h"

namespace larder::net {
namespace {

// An int64 has 19 digits and a sign.
constexpr std::size_t kMaxDigits = 20;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<std::int64_t> parse_length(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole =
      error == std::errc() && end == digits.data() + digits.size() && digits.size() <= kMaxDigits;
  // -1 is the absent value of RESP2; any other negative length is a fault.
  if (!whole || (value < 0 && digits != "-1"))
    return Status(Code::kDataLoss, "a length that is no number");
  return value;
}

ReplyScanner::Found ReplyScanner::scan(std::span<const std::byte> bytes) {
  for (;;) {
    // A reply arrives in many parts. The search goes on behind the bytes that had no line end, else
    // a slow sender costs quadratic time.
    const std::string_view rest = text_of(bytes).substr(std::max(at_, searched_));
    const std::size_t found = rest.find('\n');
    if (found == std::string_view::npos) {
      searched_ = bytes.size();
      if (bytes.size() - at_ > kMaxLineBytes) return fail("a line that does not end");
      return Found::kPart;
    }
    const std::size_t line_end = std::max(at_, searched_) + found + 1;
    if (line_end - at_ > kMaxLineBytes || line_end > (long_ ? kMaxLongReplyBytes : kMaxReplyBytes))
      return fail("a reply that is too long");
    // The shortest line is a type and its end. "\n" alone would split lines differently from
    // hiredis.
    if (line_end - at_ < 3 || text_of(bytes)[line_end - 2] != '\r')
      return fail("a line without its end");
    if (const Found item_found = item(bytes, line_end); item_found != Found::kWhole)
      return item_found;
    // Depth without recursion: each open array counts its elements down.
    while (!open_.empty() && --open_.back() == 0) open_.pop_back();
    if (open_.empty()) return Found::kWhole;
  }
}

// One line and, for a string, the bytes after the line. kWhole: at_ is the end of the item.
ReplyScanner::Found ReplyScanner::item(std::span<const std::byte> bytes, std::size_t line_end) {
  const std::string_view line = text_of(bytes).substr(at_, line_end - 2 - at_);
  const char type = line.front();
  if (type == '+' || type == '-') {
    at_ = line_end;
    return Found::kWhole;
  }
  // Types of RESP3 are refused: no HELLO 3 was sent.
  if (type != ':' && type != '$' && type != '*') return fail("a reply of no known type");
  const std::string_view digits = line.substr(1);
  if (type == ':') {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      return fail("a malformed integer");
    at_ = line_end;
    return Found::kWhole;
  }
  const Result<std::int64_t> length = parse_length(digits);
  if (!length.ok()) return fail("a length that is no number");
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(*length, 0));
  if (type == '$') {
    // Before the sum below: a huge length must not overflow it.
    if (count > kMaxBulkBytes) return fail("a reply that is too long");
    const std::size_t end = *length < 0 ? line_end : line_end + count + 2;
    if (end > (long_ ? kMaxLongReplyBytes : kMaxReplyBytes))
      return fail("a reply that is too long");
    if (bytes.size() < end) {
      searched_ = line_end - 1;  // to find this line again
      return Found::kPart;
    }
    if (*length >= 0 && text_of(bytes).substr(end - 2, 2) != "\r\n")
      return fail("a bulk without its end");
    at_ = end;
    return Found::kWhole;
  }
  // The parser recurses for each level. The bound protects its stack.
  if (open_.size() == kMaxDepth) return fail("a reply that is nested too deeply");
  // hiredis allocates all elements of an array when it reads the count: a count without elements
  // could ask for gigabytes.
  if (count > (long_ ? kMaxLongElements : kMaxElements) - elements_)
    return fail("a reply of too many elements");
  elements_ += count;
  at_ = line_end;
  // One more, because the caller subtracts one for every item: an array ends with the last element.
  if (count != 0) open_.push_back(count + 1);
  return Found::kWhole;
}

}  // namespace larder::net
