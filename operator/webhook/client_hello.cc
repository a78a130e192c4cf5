#include "operator/webhook/client_hello.h"

#include <algorithm>

namespace larder::webhook {
namespace {

// RFC 8446, 5.1 and 4. The record has type, version and two bytes of length. The message has type
// and three bytes of length.
constexpr std::size_t kRecordHeader = 5, kMessageHeader = 4;
constexpr unsigned kHandshake = 22, kVersion = 3, kClientHello = 1;
static_assert(kRecordHeader + kMessageHeader == kHelloStart);

}  // namespace

std::size_t hello_bytes(std::span<const char> first) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(first[i]); };
  if (!first.empty() && at(0) != kHandshake) return 0;
  // Before the first nine bytes the lengths are unknown.
  if (first.size() < kHelloStart) return kHelloStart;
  const std::size_t record = at(3) * 256U + at(4), message = at(6) * 65536U + at(7) * 256U + at(8);
  if (at(1) != kVersion || at(5) != kClientHello || record < kMessageHeader) return 0;
  // Both lengths count: a record may hold a part of the message only, and the message may announce
  // megabytes.
  return std::max(record, message) > kMostHello ? 0 : kRecordHeader + record;
}

}  // namespace larder::webhook
