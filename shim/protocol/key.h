// Key: the name of a chunk; and NamespaceId: the 128-bit hash of a fingerprint text.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace larder::protocol {

// The XXH3-128 hash of the canonical fingerprint text. The hash guards against accidents, not
// against attackers.
struct NamespaceId {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  friend bool operator==(const NamespaceId&, const NamespaceId&) = default;

  // 32 lower-case hex digits, high half first: the form for display and for input.
  std::string to_hex() const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text(32, '0');
    for (int i = 0; i < 16; ++i) {
      text[15 - i] = kDigits[(hi >> (4 * i)) & 15];
      text[31 - i] = kDigits[(lo >> (4 * i)) & 15];
    }
    return text;
  }
  // Takes only the form of to_hex().
  static std::optional<NamespaceId> from_hex(std::string_view text) {
    NamespaceId id;
    if (text.size() != 32) return std::nullopt;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return std::nullopt;
      const auto digit = static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
      (i < 16 ? id.hi : id.lo) = (i < 16 ? id.hi : id.lo) << 4 | digit;
    }
    return id;
  }
};

inline NamespaceId namespace_id(std::string_view fingerprint) {
  const XXH128_hash_t hash = XXH3_128bits(fingerprint.data(), fingerprint.size());
  return {hash.low64, hash.high64};
}

inline constexpr std::size_t kBlockHashBytes = 16;

// The first 16 bytes of the engine's chained block hash at the chunk's end,
// as two little-endian words.
struct BlockHash {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  friend bool operator==(const BlockHash&, const BlockHash&) = default;

  static BlockHash from_bytes(const void* bytes) {
    BlockHash hash;
    std::memcpy(&hash, bytes, sizeof(hash));
    return hash;
  }
  // Takes the hex digits of the bytes, as in JSON. Further digits may follow, as of a whole
  // SHA-256, and are ignored.
  static std::optional<BlockHash> from_hex(std::string_view text) {
    std::uint8_t bytes[kBlockHashBytes];
    if (text.size() < 2 * kBlockHashBytes || text.size() % 2 != 0) return std::nullopt;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      if (i >= 2 * kBlockHashBytes) continue;
      bytes[i / 2] = static_cast<std::uint8_t>(i % 2 == 0 ? digit << 4 : bytes[i / 2] | digit);
    }
    return from_bytes(bytes);
  }
};
static_assert(sizeof(BlockHash) == kBlockHashBytes);

// Never the handle of a namespace. NAMESPACE has this value without room for one more namespace
// (since 1.1), and so has an index entry that no look-up may find.
inline constexpr std::uint32_t kNoNamespace = UINT32_MAX;

// The key of a chunk in one index: the namespace handle is valid in this index only.
struct Key {
  BlockHash hash;
  std::uint32_t namespace_handle = 0;
  std::uint16_t shard = 0;
  std::uint16_t group = 0;
  friend bool operator==(const Key&, const Key&) = default;

  // Namespace, shard and group in one word, as the index entry keeps them.
  std::uint64_t scope() const {
    return static_cast<std::uint64_t>(namespace_handle) |
           (static_cast<std::uint64_t>(shard) << 32) | (static_cast<std::uint64_t>(group) << 48);
  }
  // The scope spread over a word by a multiplication (the 64-bit golden ratio, Knuth TAOCP 3, 6.4).
  std::uint64_t spread() const { return scope() * 0x9e3779b97f4a7c15ULL; }
  // A hash of the whole key. The block hash is uniform already, so a second hash is not needed.
  std::uint64_t mixed() const { return hash.lo ^ spread(); }
};

}  // namespace larder::protocol
