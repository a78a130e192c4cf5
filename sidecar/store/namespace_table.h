// NamespaceTable: the namespaces of one index. A handle is a place in it and is never given a second time in one life of the
// index: an engine that lost its session may still be looking up under it.
//
// Owned by the store's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shim/protocol/key.h"
#include "shim/protocol/messages.h"
#include "shim/protocol/status.h"

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
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;  // payloads
  std::uint32_t sessions = 0;

  // The layout of a chunk of this shard and group, or nullptr where the namespace has none, or none yet.
  const protocol::GroupLayout* layout(std::uint32_t shard, std::uint32_t group) const {
    if (shard >= spec.shard_count) return nullptr;
    const std::vector<protocol::GroupLayout>& groups = layouts.size() == 1 ? layouts.front() : layouts[shard];
    return group < groups.size() ? &groups[group] : nullptr;
  }
};

class NamespaceTable {
 public:
  // The handle of the namespace, made if it is new (`difference` then tells how it differs from the one most like it).
  // kInvalidArgument: the spec contradicts itself or what is known under its id. kOutOfRange: over a limit, or larger than the
  // arena. kResourceExhausted: the table is full.
  Result<std::uint32_t> open(const NamespaceSpec& spec, std::uint64_t arena_bytes, std::string* difference);

  std::uint32_t size() const { return static_cast<std::uint32_t>(namespaces_.size()); }
  // REQUIRES: handle < size().
  Namespace& at(std::uint32_t handle) { return namespaces_[handle]; }
  const Namespace& at(std::uint32_t handle) const { return namespaces_[handle]; }

  // The one whose id in hex starts with `prefix` (at least 4 digits). kInvalidArgument, kNotFound, or kOutOfRange if several do.
  Result<std::uint32_t> by_prefix(const std::string& prefix) const;

 private:
  Status join(Namespace& known, const NamespaceSpec& spec);
  std::string describe_difference(const std::string& fingerprint) const;

  std::vector<Namespace> namespaces_;
};

}  // namespace larder::store
