#include "shim/client/store_job.h"

#include "shim/base/test_point.h"
#include "shim/client/slot_messages.h"

namespace larder::client {

using protocol::MessageType;

StoreJob::StoreJob(const StoreRoom& room, std::shared_ptr<Reservation> reservation,
                   std::vector<Chunk> chunks)
    : CopyJob(chunks.size(), Urgency::kYields),
      room_(room),
      reservation_(std::move(reservation)),
      chunks_(std::move(chunks)),
      written_(chunks_.size()) {}

bool StoreJob::copy(std::size_t part) {
  std::int64_t none = 0;
  started_ns_.compare_exchange_strong(none, Clock::now().time_since_epoch().count());
  if (batch().overtaken()) return false;
  try {
    std::vector<std::byte*> pieces;
    chunk_pieces(room_.pages[reservation_->transfer.group], chunks_[part].pages,
                 group().blocks_per_chunk, pieces);
    // The fence is a part of the list: the copy engine waits before the first read of a page.
    const copy::PieceList list{pieces, group().piece_bytes, batch().after.get()};
    Chunk& chunk = chunks_[part];
    const protocol::SlotRef ref{chunk.record.slot, 0, chunk.record.generation};
    const Result<std::uint64_t> root =
        room_.sidecar != nullptr ? room_.sidecar->store(attachment(), ref, list, chunk.slot)
                                 : store_by_itself(attachment(), room_.engine, list, chunk.slot);
    // The chunk is given back, and the other parts of the job end too: the fault most likely meets
    // the others as well.
    if (!root.ok()) return false;
    chunk.record.root = *root;
  } catch (const std::exception&) {
    return false;
  }
  // The pages may have new bytes, and the digests would match those bytes.
  if (batch().overtaken()) return false;  // mutation: store-overtaken
  written_[part] = 1;
  return true;
}

void StoreJob::finished() {
  if (const std::int64_t started = started_ns_; started != 0)
    copy_ns_ = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count() - started);
  LARDER_POINT(store_copied);
  room_.ended(*this);
}

void StoreJob::settle(StoreResult& result) {
  std::vector<protocol::CommitRecord> records;
  std::vector<protocol::SlotRef> failed;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const protocol::CommitRecord& record = chunks_[i].record;
    if (written_[i] != 0)
      // Committed only after the copy: a look-up must never find a slot in the middle of a write.
      records.push_back(record);
    else
      failed.push_back({record.slot, 0, record.generation});
  }
  // Before the commits: larderd can give these slots to others at once.
  send_list(attachment().outbox(), MessageType::kDisown, failed);
  result.refused += failed.size();
  result.copy_ns += copy_ns_;
  LARDER_POINT(commit_ready);
  if (!send_list(attachment().outbox(), MessageType::kCommit, records)) {
    result.refused += records.size();
    return;
  }
  LARDER_POINT(commit_sent);
  result.stored += records.size();
  result.bytes += records.size() * group().payload_bytes();
  tell(records.size());
}

void StoreJob::tell(std::size_t stored) const {
  EventFields event;
  event.kind = protocol::EventKind::kStore;
  event.a = stored * group().payload_bytes();
  event.b = stored * reservation_->transfer.counted_tokens;
  event.c = copy_ns_;
  attachment().events().add(event);
}

}  // namespace larder::client
