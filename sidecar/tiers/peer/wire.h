// The wire between peers: requests and replies in RESP2 (docs/design/peer-protocol.md). Formats and
// parses; every parser takes hostile bytes. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/net/resp.h"
#include "sidecar/tiers/tier.h"

namespace larder::peer {

inline constexpr std::uint32_t kProtocol = 1;
inline constexpr std::uint32_t kOldestProtocol = 1;  // the version before, once there is one
inline constexpr std::size_t kKeyBytes = 20;         // hash 16, shard 2, group 2
// A reply to LOOK: chunks of one prompt have few sizes, so that each size is sent once.
inline constexpr std::size_t kSizeBytes = 16;   // payload 8, piece 8
inline constexpr std::size_t kFactsBytes = 18;  // number of the size 2, generation 8, root 8
inline constexpr std::size_t kMostKeys = tiers::kMaxProbeKeys;
inline constexpr std::uint32_t kMostHoldMs = 2000;
inline constexpr std::uint64_t kMostPartBytes = 4 << 20;  // of one GET
inline constexpr std::size_t kMostName = 64;              // of a pool, and of an instance
static_assert(kMostKeys * kKeyBytes <= net::kMaxBulkBytes &&
              kMostKeys / 8 + 2 + kMostKeys * (kSizeBytes + kFactsBytes) <= net::kMaxBulkBytes);

// One run of a larderd. Plain data.
struct Instance {
  std::string pool;
  std::string id;           // random, another one in each run
  std::uint64_t epoch = 0;  // of the index
  friend bool operator==(const Instance&, const Instance&) = default;
};

struct KeyHash {
  std::size_t operator()(const tiers::ChunkKey& key) const {
    return key.hash.lo ^ key.namespace_id.lo ^
           (std::uint64_t{key.shard} << 32 | std::uint64_t{key.group} << 48);
  }
};

// A request as the server reads it.
struct Request {
  enum class Kind : std::uint8_t { kPing, kHello, kLook, kGet, kDone };
  Kind kind = Kind::kPing;
  std::uint32_t protocol = 0;              // HELLO
  Instance other;                          // HELLO
  std::uint32_t hold_ms = 0;               // LOOK
  std::vector<tiers::ChunkKey> keys = {};  // LOOK, DONE: 1 to kMostKeys; GET: one
  std::uint64_t generation = 0;            // GET
  std::uint64_t offset = 0, length = 0;    // GET: bytes of the slot; length 1 to kMostPartBytes
};
// kUnsupported: an unknown word. kInvalidArgument: a known word with wrong arguments.
Result<Request> parse_request(const net::Reply& words);

// The version that this larderd and one of `newest` speak together; empty: none.
std::optional<std::uint32_t> common_protocol(std::uint32_t newest);

std::string format_ping();
std::string format_hello(const Instance& self);
// REQUIRES: 1 to kMostKeys keys, all of one namespace.
std::string format_look(std::span<const tiers::ChunkKey> keys, std::uint32_t hold_ms);
std::string format_done(std::span<const tiers::ChunkKey> keys);
std::string format_get(const tiers::ChunkKey& key, std::uint64_t generation, std::uint64_t offset,
                       std::uint64_t length);

// Replies, as bytes for the socket.
std::string hello_reply(const Instance& self, std::uint32_t protocol = kProtocol);
std::string look_reply(std::span<const std::optional<tiers::ChunkFacts>> chunks);
std::string error_reply(std::string_view text);  // "NOHELLO say HELLO first"

// kFailedPrecondition: another pool or protocol. kDataLoss: no reply to HELLO.
Result<Instance> parse_hello_reply(const net::Reply& reply);
// The facts for each of `keys` keys; empty: not there. kDataLoss: malformed, or implausible facts.
Result<std::vector<std::optional<tiers::ChunkFacts>>> parse_look_reply(std::string_view bulk,
                                                                       std::size_t keys);

}  // namespace larder::peer
