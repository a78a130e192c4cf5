#include "operator/desired/short_hash.h"

#include <cstdint>

namespace larder::desired {

// FNV-1a of 64 bits, since the hash only has to tell states apart.
std::string short_hash(std::string_view text) {
  constexpr std::uint64_t kBasis = 0xcbf29ce484222325ULL, kPrime = 0x100000001b3ULL;  // FNV-1a
  std::uint64_t hash = kBasis;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(hash >> shift) & 15];
  return digits;
}

}  // namespace larder::desired
