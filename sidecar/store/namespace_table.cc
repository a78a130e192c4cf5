#include "sidecar/store/namespace_table.h"

#include <algorithm>

#include "shim/protocol/checksum.h"
#include "sidecar/store/fingerprint_diff.h"

namespace larder::store {
namespace {

Status validate(const NamespaceSpec& spec, std::uint64_t arena_bytes) {
  if (protocol::namespace_id(*spec.fingerprint) != spec.id)
    return {Code::kInvalidArgument, "namespace id " + spec.id.to_hex() + " is not the hash of its fingerprint text"};
  if (spec.groups.empty() || spec.groups.size() > protocol::kMaxGroups)
    return {Code::kOutOfRange,
            "group_count " + std::to_string(spec.groups.size()) + " is not 1.." + std::to_string(protocol::kMaxGroups)};
  if (spec.shard_count == 0 || spec.shard_count > protocol::kMaxShards)
    return {Code::kOutOfRange,
            "shard_count " + std::to_string(spec.shard_count) + " is not 1.." + std::to_string(protocol::kMaxShards)};
  if (spec.layout_shard > spec.shard_count)
    return {Code::kOutOfRange,
            "layout_shard " + std::to_string(spec.layout_shard) + " is not 0.." + std::to_string(spec.shard_count)};
  for (const protocol::GroupLayout& group : spec.groups) {
    if (group.piece_bytes == 0 || group.piece_bytes > protocol::kMaxPieceBytes || group.pieces_per_chunk == 0)
      return {Code::kOutOfRange, "piece_bytes " + std::to_string(group.piece_bytes) + " is not 1.." +
                                     std::to_string(protocol::kMaxPieceBytes) + ", or pieces_per_chunk is 0"};
    const std::uint64_t payload = group.piece_bytes * group.pieces_per_chunk;
    if (payload > protocol::kMaxPayloadBytes)
      return {Code::kOutOfRange, "a chunk of " + std::to_string(payload) + " bytes is over the limit of " +
                                     std::to_string(protocol::kMaxPayloadBytes) + ": use a smaller chunk_tokens"};
    const std::uint64_t slot = protocol::slot_bytes(payload, group.piece_bytes);
    if (slot > arena_bytes)
      return {Code::kOutOfRange, "a chunk needs " + std::to_string(slot) + " bytes and the arena has " +
                                     std::to_string(arena_bytes) + ": raise memory.size or use a smaller chunk_tokens"};
  }
  return {};
}

bool same_groups(const std::vector<protocol::GroupLayout>& a, const std::vector<protocol::GroupLayout>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one.piece_bytes == other.piece_bytes && one.pieces_per_chunk == other.pieces_per_chunk;
  });
}

Namespace make_namespace(const NamespaceSpec& spec) {
  Namespace made;
  made.spec = spec;
  made.layouts.resize(spec.layout_shard == 0 ? 1 : spec.shard_count);
  made.layouts[spec.layout_shard == 0 ? 0 : spec.layout_shard - 1] = spec.groups;
  return made;
}

}  // namespace

Result<std::uint32_t> NamespaceTable::open(const NamespaceSpec& spec, std::uint64_t arena_bytes, std::string* difference) {
  if (Status status = validate(spec, arena_bytes); !status.ok()) return status;
  for (std::uint32_t handle = 0; handle < size(); ++handle) {
    if (namespaces_[handle].spec.id != spec.id) continue;
    if (Status joined = join(namespaces_[handle], spec); !joined.ok()) return joined;
    return handle;
  }
  if (namespaces_.size() == protocol::kMaxNamespaces)
    return Status(Code::kResourceExhausted,
                  "all " + std::to_string(protocol::kMaxNamespaces) + " namespaces are taken: restart larderd");
  *difference = describe_difference(*spec.fingerprint);
  namespaces_.push_back(make_namespace(spec));
  return size() - 1;
}

// One more opener of a known namespace: it must agree, and may tell the layout of its own shard.
Status NamespaceTable::join(Namespace& known, const NamespaceSpec& spec) {
  const bool one_for_all = known.spec.layout_shard == 0;
  bool agrees = known.spec.shard_count == spec.shard_count && known.spec.chunk_tokens == spec.chunk_tokens &&
                known.spec.groups.size() == spec.groups.size() && one_for_all == (spec.layout_shard == 0);
  if (agrees) {
    std::vector<protocol::GroupLayout>& layout = known.layouts[one_for_all ? 0 : spec.layout_shard - 1];
    if (layout.empty()) layout = spec.groups;
    agrees = same_groups(layout, spec.groups);
  }
  if (agrees) return {};
  return {Code::kInvalidArgument,
          "namespace " + spec.id.to_hex() +
              " is known with another chunk layout: its fingerprint must name everything that decides the "
              "layout"};
}

std::string NamespaceTable::describe_difference(const std::string& fingerprint) const {
  FingerprintDifference least;
  const Namespace* nearest = nullptr;
  for (const Namespace& known : namespaces_) {
    FingerprintDifference difference = diff_fingerprints(*known.spec.fingerprint, fingerprint);
    if (nearest != nullptr && difference.fields >= least.fields) continue;
    least = std::move(difference);
    nearest = &known;
  }
  if (nearest == nullptr) return "";
  return "differs from namespace " + nearest->spec.id.to_hex().substr(0, 8) + " in: " + least.text;
}

Result<std::uint32_t> NamespaceTable::by_prefix(const std::string& prefix) const {
  if (prefix.size() < 4 || prefix.size() > 32 || prefix.find_first_not_of("0123456789abcdef") != std::string::npos)
    return Status(Code::kInvalidArgument, "'" + prefix + "' is no namespace: give 4 to 32 lower-case hex digits of its id");
  std::uint32_t found = size();
  for (std::uint32_t handle = 0; handle < size(); ++handle) {
    if (!namespaces_[handle].spec.id.to_hex().starts_with(prefix)) continue;
    if (found != size()) return Status(Code::kOutOfRange, "several namespaces start with " + prefix + ": give more digits");
    found = handle;
  }
  if (found == size()) return Status(Code::kNotFound, "no namespace starts with " + prefix);
  return found;
}

}  // namespace larder::store
