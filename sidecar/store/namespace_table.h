// NamespaceTable: the namespaces of one index, each under a handle (protocol::namespace_place()).
//
// The text and the chunk layout together identify a namespace. The same text with another layout is
// another namespace, so a wrong layout costs only its opener. A namespace without sessions and
// slots closes: its place serves the next namespace under the next generation, and an old handle is
// never valid again, see is_open().
//
// ReleasedNamespace.TableMatchesTheIndexAfterRandomOperations checks the counts against the index.
// Owned by the thread of the store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "shim/protocol/index_layout.h"
#include "shim/protocol/messages.h"

namespace larder::store {

struct NamespaceSpec {
  protocol::NamespaceId id;
  std::vector<protocol::GroupLayout> groups;
  std::uint32_t shard_count = 0;
  // `groups` is the layout of every shard (0) or of shard n (n + 1)
  std::uint32_t layout_shard = 0;
  std::uint32_t chunk_tokens = 0;
  // Never null; shared with the statistics, which a tick copies.
  std::shared_ptr<const std::string> fingerprint;
  std::string model;
  // Those of a chunk that this larderd keeps (protocol::has_part()); empty: all.
  std::vector<std::uint64_t> parts;

  bool has(std::uint32_t shard, std::uint32_t group) const {
    return protocol::has_part(parts, protocol::part_bit(shard, group, groups.size()));
  }
  // The number of parts of a chunk.
  std::uint32_t part_count() const;
};

struct Namespace {
  NamespaceSpec spec;
  std::vector<std::vector<protocol::GroupLayout>>
      layouts;                     // one for all shards, or one each: empty while unknown
  std::uint64_t slot_bytes = 0;    // of the largest chunk
  std::uint64_t family_bytes = 0;  // of all chunks of one block hash, in shards with a known layout
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;  // payloads
  // Slots with a key of this namespace: granted, committed, or bad and not verified.
  std::uint32_t slots = 0;
  std::uint32_t pinned = 0;    // of `slots`
  std::uint32_t sessions = 0;  // that have the namespace open
  bool left = false;           // the last session has left
  std::uint64_t used = 0;      // the stamp of the last use, see NamespaceTable::touch()

  // The layout of chunks of this shard and group; nullptr if unknown, not known yet,
  // or not kept here.
  const protocol::GroupLayout* layout(std::uint32_t shard, std::uint32_t group) const {
    if (shard >= spec.shard_count) return nullptr;
    const std::vector<protocol::GroupLayout>& groups =
        layouts.size() == 1 ? layouts.front() : layouts[shard];
    return group < groups.size() && spec.has(shard, group) ? &groups[group] : nullptr;
  }
};

class NamespaceTable {
 public:
  // `first_generation`: the first generation of every place.
  explicit NamespaceTable(std::uint32_t first_generation = 0)
      : first_generation_(first_generation) {}

  // Returns the handle of the namespace, new if needed. For a new namespace `difference` describes
  // the difference from the most similar of the recently used namespaces. kInvalidArgument: an
  // inconsistent spec. kOutOfRange: over a limit, or larger than the arena. kResourceExhausted: no
  // place.
  Result<std::uint32_t> open(const NamespaceSpec& spec, std::uint64_t arena_bytes,
                             std::string* difference);
  // For a restart: make() opens a new namespace, add_layout() adds the layout of one more shard.
  // Errors as of open(); kInvalidArgument: the layout does not fit.
  Result<std::uint32_t> make(const NamespaceSpec& spec, std::uint64_t arena_bytes);
  Status add_layout(std::uint32_t handle, const NamespaceSpec& spec, std::uint64_t arena_bytes);

  // Whether the handle names an open namespace.
  bool is_open(std::uint32_t handle) const;
  // The number of open namespaces.
  std::uint32_t size() const { return open_; }
  // REQUIRES: is_open(handle).
  Namespace& at(std::uint32_t handle) { return *places_[protocol::namespace_place(handle)].space; }
  const Namespace& at(std::uint32_t handle) const {
    return *places_[protocol::namespace_place(handle)].space;
  }
  // All handles, by place.
  std::vector<std::uint32_t> handles() const;

  // A session opens or leaves the namespace. REQUIRES: is_open(handle).
  void join(std::uint32_t handle);
  void leave(std::uint32_t handle);
  // Stamps a use.
  void touch(std::uint32_t handle) { at(handle).used = ++last_use_; }
  // Closes the namespace and frees its place, if all sessions have left and it has no slot. Returns
  // whether it did.
  bool give_back(std::uint32_t handle);
  std::uint64_t given_back() const { return given_back_; }
  // The largest chunk and the largest family of all namespaces, which tiers and fetches must
  // accept. 0 without a namespace.
  std::uint64_t largest_slot_bytes() const;
  std::uint64_t largest_family_bytes() const;
  // The least recently used namespace that all sessions have left; one without pinned chunks first.
  std::optional<std::uint32_t> least_used() const;

  // The namespaces of the one id that starts with `prefix` in hex (at least 4 digits), most chunks
  // first. Several layouts of one text share an id. kInvalidArgument: malformed. kNotFound: no id.
  // kOutOfRange: several ids.
  Result<std::vector<std::uint32_t>> by_prefix(const std::string& prefix) const;

 private:
  struct Place {
    std::uint32_t generation;
    std::unique_ptr<Namespace> space;  // null: free, or out of generations
  };
  std::uint32_t handle_at(std::uint32_t place) const {
    return protocol::make_namespace_handle(place, places_[place].generation);
  }
  std::optional<std::uint32_t> find(const NamespaceSpec& spec) const;
  Result<std::uint32_t> enter(const NamespaceSpec& spec);
  std::string describe_difference(const NamespaceSpec& spec) const;

  std::uint32_t first_generation_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;  // places
  std::uint32_t open_ = 0;
  std::uint64_t last_use_ = 0;
  std::uint64_t given_back_ = 0;
};

}  // namespace larder::store
