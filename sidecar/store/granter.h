// Granter: grants slots for new chunks, to sessions (RESERVE) and to larderd itself (promotions).
//
// A chunk is useless without the chunks before it in its prompt, its ancestors. The granter links
// each new chunk to its parent, and counts a store as a use of the ancestors. It evicts no ancestor
// to make room for a later chunk of the prompt, so a prompt longer than the memory keeps its head.
// Parents are hashes from an engine, and hostile. A chunk links only to an older grant of its own
// namespace, shard and group. An unknown parent, the chunk itself or a later chunk is no parent.
// Owned by the thread of the store.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shim/protocol/messages.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_table.h"
#include "sidecar/store/evictor.h"
#include "sidecar/store/family.h"
#include "sidecar/store/session_book.h"

namespace larder::store {

class Granter {
 public:
  // All parts outlive this object.
  Granter(ChunkTable& chunks, SessionBook& sessions, Evictor& evictor, stats::Stats& stats);
  Granter(const Granter&) = delete;

  // See Store::reserve() and Store::promote().
  void reserve(SessionNumber session, const protocol::Key& scope,
               std::span<const protocol::BlockHash> hashes, std::span<protocol::Grant> grants,
               std::span<const protocol::BlockHash> parents);
  protocol::Grant promote(const protocol::Key& key, std::uint64_t payload_bytes,
                          std::uint64_t piece_bytes);

 private:
  using Counter = std::uint64_t stats::Stats::*;  // of refusals
  // One message: its session, the layout of its chunks, and the slots that the search for room may
  // still look at. When all slots are held, the bound ends the search. The look-ups of
  // list_members() have a budget of their own: a message with many parents still finds room.
  struct Request {
    SessionNumber number;
    SessionBook::Session& session;
    IndexWriter::Place layout;
    std::uint64_t slot_bytes;
    std::uint32_t size_class;
    std::uint32_t may_examine;
    std::uint32_t may_list, may_climb;  // look-ups of list_members(): all, and behind late ranks
    // The search that failed with the newest stamp, and its counter: another search with a stamp
    // that is not newer fails too.
    std::uint64_t failed_stamp = 0;
    Counter failed = nullptr;
  };
  // The place of a new chunk in its prompt.
  struct Behind {
    std::uint32_t parent = kNoSlot;                // granted or committed
    protocol::Key stored = {};                     // the nearest ancestor from before the message
    std::uint64_t stamp = PromptOrder::kAnyStamp;  // see PromptOrder::use_for_child()
    Counter refused = nullptr;                     // set: the message found no space for the parent
  };

  Request request(SessionNumber number, SessionBook::Session& session,
                  const protocol::GroupLayout& layout) const;
  Behind behind(const protocol::Key& parent, Request& request);
  void count_family(Behind& place, Request& request, bool use);
  void list_members(protocol::Key key, Request& request);
  void reserve_one(const protocol::Key& key, const SessionBook::Inherited& earlier, Behind& place,
                   Request& request, protocol::Grant& granted);
  bool grant(const protocol::Key& key, Behind& place, Request& request, protocol::Grant& granted);
  SlotArena::Slot find_room(Behind& place, Request& request);
  bool fails(const Behind& place, const Request& request) const;

  ChunkTable& chunks_;
  IndexWriter& index_;  // these three are of chunks_
  SlotTable& table_;
  SlotArena& arena_;
  SessionBook& sessions_;
  Evictor& evictor_;
  stats::Stats& stats_;
  Family family_;                       // scratch of list_members()
  std::vector<std::uint32_t> members_;  // of list_members()
};

}  // namespace larder::store
