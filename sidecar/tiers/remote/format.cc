#include "sidecar/tiers/remote/format.h"

#include <cstring>

#include "sidecar/tiers/key_text.h"

namespace larder::remote {
namespace {

constexpr std::uint32_t kMagic = 0x3152524c;  // "LRR1"

// No implicit padding: each byte of the value is defined, so equal records are equal values. The
// assertions pin what FORMAT.md says.
struct RecordBytes {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t zero;
  protocol::NamespaceId namespace_id;
  protocol::BlockHash hash;
  std::uint16_t shard;
  std::uint16_t group;
  std::uint32_t part_bytes;
  std::uint64_t generation;
  std::uint64_t payload_bytes;
  std::uint64_t piece_bytes;
  std::uint64_t root;
  std::uint64_t writing;
  std::uint64_t slot_bytes;
  std::uint32_t parts;
  std::uint32_t since_s;
  std::uint64_t checksum;  // over all fields before
};
static_assert(sizeof(RecordBytes) == kRecordBytes && offsetof(RecordBytes, shard) == 40 &&
              offsetof(RecordBytes, checksum) == 104);
static_assert(kRecordBytes == 112 && kRecordEnd == "112");

// prefix ":" version ":"
// The version is a part of every key: larderd of two versions share a server without seeing each
// other's chunks.
std::string head(std::string_view prefix) {
  return std::string(prefix) + ":" + std::to_string(kFormatVersion) + ":";
}

}  // namespace

std::string encode_record(const Record& record) {
  RecordBytes bytes{};
  bytes.magic = kMagic;
  bytes.version = kFormatVersion;
  bytes.namespace_id = record.key.namespace_id;
  bytes.hash = record.key.hash;
  bytes.shard = record.key.shard;
  bytes.group = record.key.group;
  bytes.part_bytes = record.part_bytes;
  bytes.generation = record.facts.generation;
  bytes.payload_bytes = record.facts.payload_bytes;
  bytes.piece_bytes = record.facts.piece_bytes;
  bytes.root = record.facts.root;
  bytes.writing = record.writing;
  bytes.slot_bytes = record.facts.slot_bytes();
  bytes.parts = record.parts();
  bytes.since_s = record.facts.since_s;
  bytes.checksum = protocol::unit_digest(&bytes, offsetof(RecordBytes, checksum));
  return {reinterpret_cast<const char*>(&bytes), sizeof(bytes)};
}

std::optional<Record> decode_record(const tiers::ChunkKey& key, std::string_view text) {
  RecordBytes bytes{};
  // GETRANGE asks for one byte more than a record has. A longer value is foreign.
  if (text.size() != sizeof(bytes)) return std::nullopt;
  std::memcpy(&bytes, text.data(), sizeof(bytes));
  if (bytes.magic != kMagic || bytes.version != kFormatVersion) return std::nullopt;
  if (bytes.checksum != protocol::unit_digest(&bytes, offsetof(RecordBytes, checksum)))
    return std::nullopt;
  const Record record{
      {bytes.namespace_id, bytes.hash, bytes.shard, bytes.group},
      {bytes.generation, bytes.payload_bytes, bytes.piece_bytes, bytes.root, bytes.since_s},
      bytes.part_bytes,
      bytes.writing};
  // A record under a foreign key is possible: a client may have copied or renamed the key.
  if (record.key != key || record.writing == 0 || !tiers::plausible(record.facts))
    return std::nullopt;
  // A record of a hostile server could ask for millions of tiny parts. The bounds limit the number
  // of commands for a chunk.
  if (record.part_bytes < kLeastPartBytes || record.part_bytes > kMostPartBytes)
    return std::nullopt;
  // Both follow from other fields. A contradictory record is refused.
  if (bytes.slot_bytes != record.facts.slot_bytes() || bytes.parts != record.parts())
    return std::nullopt;
  return record;
}

std::string record_key(std::string_view prefix, const tiers::ChunkKey& key) {
  return head(prefix) + tiers::key_text(key);
}

std::string part_key(std::string_view prefix, const Record& record, std::uint32_t number) {
  // For example larder:2:NAMESPACE:CHUNK:00c0ffee00c0ffee:3, the fourth part of this put.
  return record_key(prefix, record.key) + ":" + tiers::hex_text(record.writing, 16) + ":" +
         std::to_string(number);
}

bool is_record_key(std::string_view prefix, std::string_view key) {
  // All record keys of a prefix have one length, and every part key is longer.
  return key.starts_with(head(prefix)) && key.size() == record_key(prefix, {}).size();
}

std::string namespace_pattern(std::string_view prefix, const protocol::NamespaceId& id) {
  return head(prefix) + id.to_hex() + ":*";
}

std::string prefix_pattern(std::string_view prefix) {
  return std::string(prefix) + ":*";
}

std::string probe_key(std::string_view prefix) {
  return std::string(prefix) + ":probe";
}

}  // namespace larder::remote
