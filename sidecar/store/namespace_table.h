// NamespaceTable: the namespaces of one index, each under a handle (protocol::namespace_place()).
//
// A namespace is identified by its text and its chunk layout: the same text with another layout is another namespace, so that a wrong layout
// costs its opener alone. A namespace that the last session has left and that has no slot is given back: its place serves the next namespace
// under the next generation. An old handle is then no handle at all, see is_open().
//
// Owned by the store's thread.
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
  std::uint32_t layout_shard = 0;  // whose layout `groups` is: 0: every shard's; n + 1: shard n's
  std::uint32_t chunk_tokens = 0;
  std::shared_ptr<const std::string> fingerprint;  // never null; shared with the statistics, which are copied every tick
  std::string model;
};

struct Namespace {
  NamespaceSpec spec;
  std::vector<std::vector<protocol::GroupLayout>> layouts;  // one for all shards, or one for each: empty where nobody told it yet
  std::uint64_t slot_bytes = 0;                             // of its largest chunk
  std::uint64_t family_bytes = 0;  // of all chunks of one block hash: each group of each shard whose layout is known
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;     // payloads
  std::uint32_t slots = 0;     // whose key names it: granted, committed, or reported bad and not yet looked at
  std::uint32_t pinned = 0;    // of these
  std::uint32_t sessions = 0;  // that have it open
  bool left = false;           // sessions had it open, and none has now
  std::uint64_t used = 0;      // the stamp of its last use, see NamespaceTable::touch()

  // The layout of a chunk of this shard and group, or nullptr where the namespace has none, or none yet.
  const protocol::GroupLayout* layout(std::uint32_t shard, std::uint32_t group) const {
    if (shard >= spec.shard_count) return nullptr;
    const std::vector<protocol::GroupLayout>& groups = layouts.size() == 1 ? layouts.front() : layouts[shard];
    return group < groups.size() ? &groups[group] : nullptr;
  }
};

class NamespaceTable {
 public:
  // `first_generation`: of every place.
  explicit NamespaceTable(std::uint32_t first_generation = 0) : first_generation_(first_generation) {}

  // The handle of the namespace, made if it is new (`difference` then tells how it differs from the one most like it among those used
  // last). kInvalidArgument: the spec contradicts itself. kOutOfRange: over a limit, or larger than the arena. kResourceExhausted: no place.
  Result<std::uint32_t> open(const NamespaceSpec& spec, std::uint64_t arena_bytes, std::string* difference);
  // For a restart: a namespace of its own, and one more shard's layout of it. Errors as of open(); kInvalidArgument: it does not fit.
  Result<std::uint32_t> make(const NamespaceSpec& spec, std::uint64_t arena_bytes);
  Status add_layout(std::uint32_t handle, const NamespaceSpec& spec, std::uint64_t arena_bytes);

  // Whether the handle names a namespace (still).
  bool is_open(std::uint32_t handle) const;
  // How many are open.
  std::uint32_t size() const { return open_; }
  // REQUIRES: is_open(handle).
  Namespace& at(std::uint32_t handle) { return *places_[protocol::namespace_place(handle)].space; }
  const Namespace& at(std::uint32_t handle) const { return *places_[protocol::namespace_place(handle)].space; }
  // All handles, by place.
  std::vector<std::uint32_t> handles() const;

  // One session more has it open, or one less. REQUIRES: is_open(handle).
  void join(std::uint32_t handle);
  void leave(std::uint32_t handle);
  // It is being used now.
  void touch(std::uint32_t handle) { at(handle).used = ++last_use_; }
  // Gives the place back, if the sessions have left it and it has no slot.
  bool give_back(std::uint32_t handle);
  std::uint64_t given_back() const { return given_back_; }
  // The largest chunk of all namespaces, and the largest family: what tiers and fetches must take. 0: there is no namespace.
  std::uint64_t largest_slot_bytes() const;
  std::uint64_t largest_family_bytes() const;
  // Of those that the sessions have left, the one used least recently; one without pinned chunks if there is one.
  std::optional<std::uint32_t> least_used() const;

  // Those of the one id that in hex starts with `prefix` (at least 4 digits), most chunks first: several layouts of one text have one id.
  // kInvalidArgument, kNotFound, or kOutOfRange if there are several ids.
  Result<std::vector<std::uint32_t>> by_prefix(const std::string& prefix) const;

 private:
  struct Place {
    std::uint32_t generation;
    std::unique_ptr<Namespace> space;  // null: free, or ended with its last generation
  };
  std::uint32_t handle_at(std::uint32_t place) const { return protocol::make_namespace_handle(place, places_[place].generation); }
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
