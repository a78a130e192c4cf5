// NamespaceJournal: the OPEN_NAMESPACE messages of this larderd, in a file beside its index. The
// next larderd learns from the journal the layouts and texts behind the namespace ids in the index.
//
//   journal := record ...
//   record := bytes:u32 named:u32 XXH3-64(packet):u64 packet
//   named := handle + 1, or 0 (before 1.6)
//
// A record is written before its namespace can have a chunk; each layout of a namespace once. When
// closed namespaces take most of the file, the file is rewritten without them under another name,
// then renamed. Owned by the thread of the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shim/base/fd.h"
#include "shim/protocol/codec.h"
#include "sidecar/store/namespace_table.h"

namespace larder::memory {

// Decodes an OPEN_NAMESPACE. kInvalidArgument: malformed.
Result<store::NamespaceSpec> read_open_namespace(protocol::Decoder& decoder);

class NamespaceJournal {
 public:
  // The bound of the file. Chunks of namespaces without a record are lost at a restart.
  static constexpr std::uint64_t kMaxBytes = 64ULL << 20;

  struct Record {
    std::vector<std::byte> packet;
    store::NamespaceSpec spec;
    std::optional<std::uint32_t> handle;  // empty in records before protocol 1.6
  };

  NamespaceJournal() = default;
  static Result<NamespaceJournal> create(const std::string& path);
  // The records of an earlier larderd, up to the first incomplete record.
  static std::vector<Record> read(const std::string& path);

  // Writes a record, unless the journal has one for the handle and layout_shard.
  Status add(std::span<const std::byte> packet, std::uint32_t handle, std::uint32_t layout_shard);
  // Forgets handles that are not open.
  void keep(const std::function<bool(std::uint32_t)>& is_open);
  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  // The file is rewritten beyond so many bytes of forgotten records, and more than of known
  // records.
  static constexpr std::uint64_t kMostForgotten = 256 * 1024;
  struct Place {
    std::uint64_t offset = 0, bytes = 0;
  };
  Status write_anew();

  Fd fd_;
  std::string path_;
  std::uint64_t bytes_ = 0, known_bytes_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Place> known_;  // by handle and layout_shard
};

}  // namespace larder::memory
