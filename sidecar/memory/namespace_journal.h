// NamespaceJournal: the OPEN_NAMESPACE messages under which a life of the sidecar has stored, in a file beside its index, so that the next
// one knows the layouts and texts behind the ids that stand there.
//
//   journal := record ...      record := bytes:u32 named:u32 XXH3-64(packet):u64 packet      named := handle + 1, or 0 (before 1.6)
//
// Written before the namespace can have a chunk; each layout of a namespace once. Records of namespaces that were given back are left out
// once they are most of the file: it is written anew under another name, then renamed. Owned by the loop's thread.
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

// What an OPEN_NAMESPACE says. kInvalidArgument: malformed.
Result<store::NamespaceSpec> read_open_namespace(protocol::Decoder& decoder);

class NamespaceJournal {
 public:
  // More is not written down: what is stored under it is not carried over a restart.
  static constexpr std::uint64_t kMaxBytes = 64ULL << 20;

  struct Record {
    std::vector<std::byte> packet;
    store::NamespaceSpec spec;
    std::optional<std::uint32_t> handle;  // none: it did not say
  };

  NamespaceJournal() = default;
  static Result<NamespaceJournal> create(const std::string& path);
  // What an earlier life wrote, up to the first record that is not whole.
  static std::vector<Record> read(const std::string& path);

  // Nothing is written a second time.
  Status add(std::span<const std::byte> packet, std::uint32_t handle, std::uint32_t layout_shard);
  // Forgets the handles that are open no more.
  void keep(const std::function<bool(std::uint32_t)>& is_open);
  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint64_t kMostForgotten = 256 * 1024;  // bytes, or as many as those that are known
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
