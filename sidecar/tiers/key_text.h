// The text of a chunk's key in a shared store, behind the prefix of the pool. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "sidecar/tiers/tier.h"

namespace larder::tiers {

inline constexpr std::size_t kMaxPrefixBytes = 127;

// Lower-case hex of fixed width.
inline std::string hex_text(std::uint64_t value, int digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(static_cast<std::size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, value >>= 4)
    text[static_cast<std::size_t>(i)] = kDigits[value & 15];
  return text;
}

// NAMESPACE:CHUNK: 32 digits, and 40 digits for hash, shard and group. One length for all keys.
inline std::string key_text(const ChunkKey& key) {
  return key.namespace_id.to_hex() + ":" + hex_text(key.hash.hi, 16) + hex_text(key.hash.lo, 16) +
         hex_text(key.shard, 4) + hex_text(key.group, 4);
}

// No "{", because it would make a hash tag and put all keys of a Redis Cluster into one slot. No
// "*" or "?", because the prefix becomes a part of patterns.
inline bool valid_prefix(std::string_view prefix) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  return !prefix.empty() && prefix.size() <= kMaxPrefixBytes &&
         std::ranges::all_of(prefix, allowed);
}

}  // namespace larder::tiers
