// The engine's namespace, and the addresses of its KV pages.
//
// Plain data, set once before use and then only read: thread-safe. Larder parses no tensor shape:
// pages are bytes at base + i * stride.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shim/protocol/checksum.h"
#include "shim/protocol/key.h"
#include "shim/protocol/limits.h"
#include "shim/protocol/messages.h"

namespace larder::client {

// The number of a client's namespace: the place in the low bits (0 for the engine's own), a
// generation above. A place is used again, a number is not.
inline constexpr std::uint32_t kNamespacePlaceBits = 6;
static_assert(1U << kNamespacePlaceBits == protocol::kMaxClientNamespaces);
constexpr std::uint32_t namespace_number_place(std::uint32_t ns) {
  return ns % protocol::kMaxClientNamespaces;
}

struct Group {
  std::uint64_t piece_bytes = 0;
  std::uint32_t layers = 0;
  std::uint32_t blocks_per_chunk = 0;

  std::uint64_t pieces() const { return static_cast<std::uint64_t>(layers) * blocks_per_chunk; }
  std::uint64_t payload_bytes() const { return pieces() * piece_bytes; }
  std::uint64_t slot_bytes() const { return protocol::slot_bytes(payload_bytes(), piece_bytes); }
};

// The chunks of a namespace: KV of tokens, recurrent states (Mamba and the like), or the pieces of
// tails, which are shorter than a chunk. Each kind has groups of its own.
enum class NamespaceKind : std::uint8_t { kTokens, kStates, kTails };
inline constexpr std::array kNamespaceKinds{NamespaceKind::kTokens, NamespaceKind::kStates,
                                            NamespaceKind::kTails};

// Some of a client's groups, by their numbers.
struct GroupRange {
  std::uint16_t first = 0, count = 0;
};

// One shard's pieces of one group, by the group's number inside its namespace.
struct Part {
  std::uint16_t shard = 0, group = 0;
};

// The parts of a namespace's chunks that larderd keeps, in the order of look-ups. A pipeline stage
// may have no layer of a group, and a shard on another node is with that node's larderd.
struct ChunkParts {
  std::vector<Part> kept;
  std::vector<std::uint64_t>
      words;   // a bit for each part (protocol::has_part()); empty: all are kept
  Part first;  // of `kept`: the lowest group's lowest shard
  std::uint32_t groups = 0;

  bool has(Part part) const {
    return protocol::has_part(words, protocol::part_bit(part.shard, part.group, groups));
  }
};

struct NamespaceSpec {
  std::string fingerprint;
  std::string model;
  protocol::NamespaceId id;
  std::uint32_t shard_count = 0;
  // 0: `groups` is the layout of every shard; n + 1: of shard n alone (a pipeline)
  std::uint32_t layout_shard = 0;
  std::uint32_t chunk_tokens = 0;
  std::vector<Group> groups;
  // Of `groups`: first those of tokens, then those of states, and last those of tails.
  std::uint32_t state_groups = 0, tail_groups = 0;
  std::uint32_t tail_tokens = 0;  // of a piece of a tail

  GroupRange range(NamespaceKind kind) const {
    const auto states = static_cast<std::uint16_t>(state_groups);
    const auto tails = static_cast<std::uint16_t>(tail_groups);
    const auto tokens = static_cast<std::uint16_t>(groups.size() - states - tails);
    if (kind == NamespaceKind::kTokens) return {0, tokens};
    if (kind == NamespaceKind::kStates) return {tokens, states};
    return {static_cast<std::uint16_t>(tokens + states), tails};
  }
  // The tokens of a chunk of that kind. A state stands for all earlier tokens.
  std::uint32_t tokens(NamespaceKind kind) const {
    return kind == NamespaceKind::kTails ? tail_tokens : chunk_tokens;
  }
};

struct LayerPages {
  std::byte* base = nullptr;
  std::uint64_t stride_bytes = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t page_count = 0;
};

inline constexpr std::uint32_t kNoPage = UINT32_MAX;  // LARDER_NO_PAGE: a load leaves the block out

using GroupPages = std::vector<LayerPages>;  // one for each layer; empty: not registered

// The pieces of one chunk, in payload order: layer by layer, and inside a layer block by block.
// REQUIRES: every page below its layer's page_count, or kNoPage: then the pieces are null.
inline void chunk_pieces(const GroupPages& layers, const std::uint32_t* pages, std::uint32_t blocks,
                         std::vector<std::byte*>& pieces) {
  pieces.clear();
  for (const LayerPages& layer : layers)
    for (std::uint32_t block = 0; block < blocks; ++block)
      pieces.push_back(pages[block] == kNoPage ? nullptr
                                               : layer.base + pages[block] * layer.stride_bytes);
}

// Chunks of one shard and group, and the KV pages of each.
struct Transfer {
  std::uint32_t ns = 0;  // number of the client's namespace
  std::uint16_t shard = 0;
  std::uint16_t group = 0;      // of the client
  std::uint16_t key_group = 0;  // the same group inside its namespace; set by the client
  std::vector<protocol::BlockHash> hashes;
  // Only for a store: for each hash the hash of the chunk before it in its prompt (zero: none).
  // Empty: unknown.
  std::vector<protocol::BlockHash> parents;
  std::vector<std::uint32_t> pages;  // blocks_per_chunk for each hash
  // The tokens of a chunk with its first part, and 0 with the other parts: tokens are counted once.
  // 0 for states. Set by the client.
  std::uint32_t counted_tokens = 0;
};

}  // namespace larder::client
