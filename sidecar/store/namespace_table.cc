#include "sidecar/store/namespace_table.h"

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

bool same_layout(const NamespaceSpec& a, const NamespaceSpec& b) {
  if (a.shard_count != b.shard_count || a.chunk_tokens != b.chunk_tokens || a.groups.size() != b.groups.size()) return false;
  for (std::size_t i = 0; i < a.groups.size(); ++i)
    if (a.groups[i].piece_bytes != b.groups[i].piece_bytes || a.groups[i].pieces_per_chunk != b.groups[i].pieces_per_chunk)
      return false;
  return true;
}

}  // namespace

Result<std::uint32_t> NamespaceTable::open(const NamespaceSpec& spec, std::uint64_t arena_bytes, std::string* difference) {
  if (Status status = validate(spec, arena_bytes); !status.ok()) return status;
  for (std::uint32_t handle = 0; handle < size(); ++handle) {
    if (namespaces_[handle].spec.id != spec.id) continue;
    if (same_layout(namespaces_[handle].spec, spec)) return handle;
    return Status(Code::kInvalidArgument, "namespace " + spec.id.to_hex() +
                                              " is known with another chunk layout: its fingerprint must "
                                              "name everything that decides the layout");
  }
  if (namespaces_.size() == protocol::kMaxNamespaces)
    return Status(Code::kResourceExhausted,
                  "all " + std::to_string(protocol::kMaxNamespaces) + " namespaces are taken: restart larderd");
  *difference = describe_difference(*spec.fingerprint);
  namespaces_.push_back({spec});
  return size() - 1;
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
