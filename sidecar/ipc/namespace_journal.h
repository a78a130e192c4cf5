// NamespaceJournal: the OPEN_NAMESPACE messages under which a life of the sidecar has stored, in a file beside its index, so that the next
// one knows the layouts and texts behind the ids that stand there.
//
//   journal := record ...      record := bytes:u32 0:u32 XXH3-64(packet):u64 packet
//
// Written before the namespace can have a chunk; each layout of a namespace once. Owned by the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shim/protocol/codec.h"
#include "shim/protocol/fd.h"
#include "sidecar/store/namespace_table.h"

namespace larder::ipc {

// What an OPEN_NAMESPACE says. kInvalidArgument: malformed.
Result<store::NamespaceSpec> read_open_namespace(protocol::Decoder& decoder);

class NamespaceJournal {
 public:
  // More is not written down: what is stored under it is not carried over a restart.
  static constexpr std::uint64_t kMaxBytes = 64ULL << 20;

  struct Record {
    std::vector<std::byte> packet;
    store::NamespaceSpec spec;
  };

  NamespaceJournal() = default;
  static Result<NamespaceJournal> create(const std::string& path);
  // What an earlier life wrote, up to the first record that is not whole.
  static std::vector<Record> read(const std::string& path);

  // Nothing is written a second time.
  Status add(std::span<const std::byte> packet, const store::NamespaceSpec& spec);
  const std::string& path() const { return path_; }

 private:
  Fd fd_;
  std::string path_;
  std::uint64_t bytes_ = 0;
  std::set<std::pair<std::string, std::uint32_t>> known_;  // id, layout_shard
};

}  // namespace larder::ipc
