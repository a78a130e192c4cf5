// GarbageQueue: the removal of bad chunks, chunks without a part, evicted chunks, and leftover
// parts of puts. Each entry is read and removed, behind earlier writes, until the server confirms
// the removal. Owned by the thread of the tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/chunks/known_chunks.h"
#include "sidecar/tiers/remote/chunks/operation_table.h"
#include "sidecar/tiers/remote/chunks/server_commands.h"
#include "sidecar/tiers/remote/format.h"

namespace larder::remote {

class GarbageQueue {
 public:
  static constexpr std::size_t kMost = 4096;  // without evictions, which the caller bounds

  // A removal.
  struct Garbage {
    // kGeneration: the record of this generation. kChunk: any value under the key. kGarbage: a
    // value that is no record. kWriting: the record of this writing with its parts. kParts: the
    // parts of this writing, unless its record exists.
    enum class What : std::uint8_t { kGeneration, kChunk, kGarbage, kWriting, kParts };
    What what = What::kChunk;
    Record record;
    std::uint64_t serial = 0;
    bool asked = false;         // a reply is due
    bool away = false;          // a server of the record or of a part was away
    std::uint64_t wait_ns = 0;  // not 0: the server refused the removal
    std::uint64_t next_ns = 0;  // no attempt before this time
    // Later operations wait for this one.
    bool waited_for() const { return wait_ns == 0 && !away; }  // mutation: bad-node-garbage
  };

  // All arguments outlive this object.
  GarbageQueue(const EngineServices& services, ServerCommands& commands, OperationTable& operations)
      : clock_(services.clock),
        options_(services.options),
        known_(services.known),
        backend_(services.backend),
        commands_(commands),
        operations_(operations) {}
  GarbageQueue(const GarbageQueue&) = delete;
  GarbageQueue& operator=(const GarbageQueue&) = delete;

  // A chunk that an engine found bad: hidden here at once, and removed from the server soon.
  void forget(const tiers::ChunkKey& key, std::uint64_t generation);
  // Hides and removes any chunk under the key. Ends the puts and gets of the key that have not
  // started, and fails the others at their end.
  void evict(const tiers::ChunkKey& key);
  // A removal beyond the bound is dropped: the chunk is found once more. Equal removals of several
  // gets become one.
  void remove(Garbage::What what, const Record& record);
  // Removes the parts of a failed or late put, or of a replaced record. No reader finds such parts,
  // and without a time to live they would stay.
  void leave_behind(const Record& record);

  // Whether a record on the server is about to be removed: a reader treats the record as absent.
  bool was_forgotten(const Record& record) const;
  // Whether the value under the key of a record is no record.
  static bool is_garbage(const Reply& there, const std::optional<Record>& record);
  // A removal that a put must wait for, or nullptr: the removal would also remove the new chunk.
  // Valid until the next call of another method.
  const Garbage* before(const Op& put) const;
  // Whether a removal from before this serial is pending at a server that answers.
  bool removing(std::uint64_t before_serial) const;
  std::size_t size() const { return garbage_.size(); }

  // Begins due removals, at most 64 at once. `reads_fail`: no server answers reads, so that every
  // removal waits.
  void maintain(bool reads_fail);
  std::uint64_t next_ns() const { return next_attempt_ns_; }  // the time of the next attempt

 private:
  static bool is_meant(const Garbage& one, const Record& record);
  bool put_before(const Garbage& one) const;
  void garbage_came(std::uint64_t serial, const Status& lost, const Reply& reply);
  void take_record(Garbage& one);
  void record_taken(std::uint64_t serial, const Status& lost, const Reply& reply);
  void give_back(const Record& record);
  std::vector<std::string> part_keys(const Garbage& one) const;
  void unlink_garbage(Garbage& one, const std::vector<std::string>& keys);
  void put_off(Garbage& one);

  const base::Clock& clock_;
  const RemoteOptions& options_;
  KnownChunks& known_;
  Backend& backend_;
  ServerCommands& commands_;
  OperationTable& operations_;

  std::list<Garbage> garbage_;
  std::uint64_t next_attempt_ns_ = UINT64_MAX;
};

}  // namespace larder::remote
