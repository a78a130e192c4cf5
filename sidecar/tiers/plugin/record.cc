#include "sidecar/tiers/plugin/record.h"

#include <cstring>

#include "sidecar/tiers/key_text.h"

namespace larder::plugin {
namespace {

constexpr std::uint32_t kMagic = 0x3152504c;  // "LPR1"
constexpr std::uint16_t kVersion = 1;

// No implicit padding: equal records are equal bytes.
struct RecordBytes {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t zero;
  protocol::NamespaceId namespace_id;
  protocol::BlockHash hash;
  std::uint16_t shard;
  std::uint16_t group;
  std::uint32_t since_s;
  std::uint64_t generation;
  std::uint64_t payload_bytes;
  std::uint64_t piece_bytes;
  std::uint64_t root;
  std::uint64_t slot_bytes;
  std::uint64_t reserved[4];
  std::uint64_t checksum;  // XXH3-64 over all fields before
};
static_assert(sizeof(RecordBytes) == kRecordBytes && offsetof(RecordBytes, shard) == 40 &&
              offsetof(RecordBytes, checksum) == 120);

}  // namespace

void encode_record(const Chunk& chunk, std::span<std::byte> out) {
  RecordBytes bytes{};
  bytes.magic = kMagic;
  bytes.version = kVersion;
  bytes.namespace_id = chunk.key.namespace_id;
  bytes.hash = chunk.key.hash;
  bytes.shard = chunk.key.shard;
  bytes.group = chunk.key.group;
  bytes.since_s = chunk.facts.since_s;
  bytes.generation = chunk.facts.generation;
  bytes.payload_bytes = chunk.facts.payload_bytes;
  bytes.piece_bytes = chunk.facts.piece_bytes;
  bytes.root = chunk.facts.root;
  bytes.slot_bytes = chunk.facts.slot_bytes();
  bytes.checksum = protocol::unit_digest(&bytes, offsetof(RecordBytes, checksum));
  std::memcpy(out.data(), &bytes, sizeof(bytes));
}

std::optional<tiers::ChunkFacts> decode_record(const tiers::ChunkKey& key,
                                               std::span<const std::byte> record,
                                               std::uint64_t object_bytes) {
  RecordBytes bytes{};
  if (record.size() != sizeof(bytes)) return std::nullopt;
  std::memcpy(&bytes, record.data(), sizeof(bytes));
  if (bytes.magic != kMagic || bytes.version != kVersion ||
      bytes.checksum != protocol::unit_digest(&bytes, offsetof(RecordBytes, checksum)))
    return std::nullopt;
  // A service that lost its memory may answer with the object of another key.
  if (tiers::ChunkKey{bytes.namespace_id, bytes.hash, bytes.shard, bytes.group} != key)
    return std::nullopt;
  const tiers::ChunkFacts facts{bytes.generation, bytes.payload_bytes, bytes.piece_bytes,
                                bytes.root, bytes.since_s};
  // The sizes must fit each other and the object, before a copy trusts them.
  if (!tiers::plausible(facts) || bytes.slot_bytes != facts.slot_bytes() ||
      object_bytes != kRecordBytes + facts.slot_bytes())
    return std::nullopt;
  return facts;
}

std::string pool_prefix(std::string_view prefix) {
  return std::string(prefix) + ":1:";
}

std::string namespace_prefix(std::string_view prefix, const protocol::NamespaceId& id) {
  return pool_prefix(prefix) + id.to_hex() + ":";
}

std::string object_key(std::string_view prefix, const tiers::ChunkKey& key) {
  return pool_prefix(prefix) + tiers::key_text(key);
}

}  // namespace larder::plugin
