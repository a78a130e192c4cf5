// OpenCalls: the calls that the plug-in has not answered, with their tickets and pieces. Batches
// the calls of a turn into packets. Owned by the thread of the tier.
//
// A call whose operation has ended is retired: its piece stays taken until the answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/known_chunks.h"
#include "sidecar/tiers/plugin/options.h"
#include "sidecar/tiers/plugin/plugin_link.h"
#include "sidecar/tiers/tier.h"

namespace larder::plugin {

struct Call {
  Kind kind = Kind::kGet;
  std::uint64_t owner = 0;  // the serial of an operation; 0: retired, or a removal or drop
  tiers::ChunkKey key;      // not of EXIST and CLEAR
  std::optional<Piece> piece;
  std::uint64_t room = 0;  // GET
  std::size_t keys = 0;    // EXIST
  std::uint64_t sent_ns = 0;
};

class OpenCalls {
 public:
  static constexpr std::size_t kMostRemoves = kMostEntries;  // at once
  // At once, with those whose probe has ended: a packet has up to 208 KiB.
  static constexpr std::size_t kMostExists = 64;
  static_assert(tiers::kMaxProbeKeys <= kMostKeys);

  // All arguments outlive this object.
  OpenCalls(const PluginOptions& options, const base::Clock& clock, PluginLink& link)
      : options_(options), clock_(clock), link_(link) {}

  // A put or get of an object of so many bytes. Returns the memory of its piece; empty: the region
  // has no room now. REQUIRES: link.ready(), as all below.
  std::span<std::byte> begin_move(Kind kind, std::uint64_t owner, const tiers::ChunkKey& key,
                                  std::uint64_t bytes);
  void exist(std::uint64_t owner, const std::vector<tiers::ChunkKey>& keys);
  void remove(std::uint64_t owner, const tiers::ChunkKey& key);
  void clear(const std::string& prefix);
  // Sends the calls of this turn.
  void flush();

  // Whether a PUT or REMOVE of the key is open.
  bool writes(const tiers::ChunkKey& key) const { return writing_.contains(key); }
  // Whether a PUT of the namespace is open, or of any namespace.
  bool puts_into(const std::optional<protocol::NamespaceId>& id) const;
  std::size_t removes() const { return removes_; }
  std::size_t exists() const { return exists_; }

  // The call of an answer; null: unknown. `found` until end().
  const Call* find(std::uint64_t ticket) const;
  // Gives the piece back. Returns the call.
  Call end(std::uint64_t ticket);
  // The operation has ended without the answer to its call.
  void retire(std::uint64_t owner);
  // The life has ended, and so have all calls.
  void forget_all();

  std::uint64_t retired_bytes() const { return retired_bytes_; }
  bool empty() const { return calls_.empty(); }
  // When the oldest call was sent. REQUIRES: not empty().
  std::uint64_t oldest_ns() const { return calls_.begin()->second.sent_ns; }

 private:
  std::uint64_t add(Call call);

  const PluginOptions& options_;
  const base::Clock& clock_;
  PluginLink& link_;
  std::map<std::uint64_t, Call> calls_;  // by ticket, the oldest first
  std::unordered_map<tiers::ChunkKey, std::uint32_t, tiers::ChunkKeyHash> writing_;
  std::unordered_map<std::uint64_t, std::uint64_t> by_owner_;  // tickets
  std::vector<Entry> puts_, gets_, removals_;                  // of this turn
  std::uint64_t last_ticket_ = 0;
  std::uint64_t retired_bytes_ = 0;
  std::size_t removes_ = 0;
  std::size_t exists_ = 0;
};

}  // namespace larder::plugin
