#include "shim/client/stores.h"

#include <algorithm>
#include <new>
#include <unordered_set>

#include "shim/base/test_point.h"
#include "shim/client/slot_messages.h"
#include "shim/protocol/codec.h"

namespace larder::client {
namespace {

using protocol::MessageType;

constexpr std::uint32_t kLastRequest = (1U << 30) - 1;  // numbers above belong to Namespaces
constexpr std::uint32_t kParentsSince = 9;              // minor version of larderd

void disown(Attachment& attachment, const std::vector<protocol::Grant>& grants) {
  std::vector<protocol::SlotRef> refs;
  for (const protocol::Grant& grant : grants)
    if (is_granted(grant)) refs.push_back({grant.slot, 0, grant.generation});
  send_list(attachment.outbox(), MessageType::kDisown, refs);
  LARDER_POINT(disown_sent);
}

}  // namespace

void Stores::begin(const std::shared_ptr<Attachment>& attachment, const Transfer& transfer,
                   bool index_is_good) {
  if (!attachment || attachment->namespace_handle(transfer.ns) == Attachment::kNoHandle) {
    const std::lock_guard lock(mutex_);
    counted_.refused += transfer.hashes.size();
    return;
  }
  const std::uint32_t blocks = room_.spec.groups[transfer.group].blocks_per_chunk;
  const Transfer empty{
      transfer.ns, transfer.shard,         transfer.group, transfer.key_group, {}, {},
      {},          transfer.counted_tokens};
  const bool tells_parents =
      !transfer.parents.empty() &&
      attachment->welcome().version_minor >= kParentsSince;  // mutation: parents-old
  Transfer part = empty;
  std::uint64_t present = 0;
  for (std::size_t i = 0; i < transfer.hashes.size(); ++i) {
    const protocol::Key key =
        attachment->key(transfer.ns, transfer.hashes[i], transfer.shard, transfer.key_group);
    // From shared memory: a stored chunk costs no message.
    if (index_is_good && attachment->index().find(key)) {
      ++present;
      continue;
    }
    part.hashes.push_back(transfer.hashes[i]);
    if (tells_parents) part.parents.push_back(transfer.parents[i]);
    const auto first = transfer.pages.begin() + static_cast<std::ptrdiff_t>(i * blocks);
    part.pages.insert(part.pages.end(), first, first + blocks);
    if (part.hashes.size() < protocol::kMaxKeysPerReserve) continue;
    reserve(attachment, std::exchange(part, empty));
  }
  if (!part.hashes.empty()) reserve(attachment, std::move(part));
  const std::lock_guard lock(mutex_);
  counted_.present += present;
}

// A reservation is registered before it is sent, because the answer can arrive before send()
// returns.
void Stores::reserve(const std::shared_ptr<Attachment>& attachment, Transfer part) {
  const std::size_t count = part.hashes.size();
  const Lock lock(mutex_);
  // The protocol bounds the grants of one session (limits.h).
  if (keys_waiting_ + count > protocol::kMaxGrants) {
    counted_.refused += count;
    return;
  }
  const std::uint32_t handle = attachment->namespace_handle(part.ns);
  if (handle == Attachment::kNoHandle) {  // the namespace was closed meanwhile
    counted_.refused += count;
    return;
  }
  last_request_ = last_request_ % kLastRequest + 1;
  const std::uint32_t request = last_request_;
  protocol::Encoder message(MessageType::kReserve, request);
  message.append(protocol::Reserve{handle, part.shard, part.key_group,
                                   static_cast<std::uint32_t>(count),
                                   static_cast<std::uint32_t>(part.parents.size())});
  message.append_all(std::span<const protocol::BlockHash>(part.hashes));
  message.append_all(std::span<const protocol::BlockHash>(part.parents));
  if (!attachment->outbox().send(message.packet())) {
    counted_.refused += count;
    return;
  }
  const auto reservation = std::make_shared<Reservation>();
  reservation->attachment = attachment;
  reservation->transfer = std::move(part);
  reservation->begun = Clock::now();
  // Under the lock since before send(): granted() waits for the lock, and then finds the entry.
  waiting_.emplace(request, reservation);
  begun_.push_back(reservation);
  keys_waiting_ += count;
  ++running_;
  LARDER_POINT(reserve_sent);
}

void Stores::granted(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                     const std::vector<protocol::Grant>& grants) {
  LARDER_POINT(granted_received);
  std::uint64_t slot_bytes = 0;
  std::vector<JobPtr> jobs;
  {
    const Lock lock(mutex_);
    const auto at = waiting_.find(request);
    const bool ours = at != waiting_.end() && at->second->attachment == attachment;
    const ReservationPtr answered = ours ? at->second : nullptr;
    // A late answer, or one with a wrong count: the grants go back unused.
    const bool wanted =
        ours && !answered->abandoned && answered->transfer.hashes.size() == grants.size();
    if (ours) {
      keys_waiting_ -= answered->transfer.hashes.size();
      waiting_.erase(at);
    }
    if (wanted) {
      answered->grants = grants;
      answered->answered = true;
      slot_bytes = room_.spec.groups[answered->transfer.group].slot_bytes();
      if (answered->batch && answered->batch->ticket != 0) jobs = make_jobs(*answered->batch, lock);
      answered_.notify_all();
    }
  }
  if (slot_bytes == 0) return disown(*attachment, grants);  // mutation: late-grant
  start(jobs);
  for (const protocol::Grant& grant : grants) {
    if (!is_granted(grant)) continue;
    // On this thread, idle while the engine computes: the copy later finds the pages present.
    attachment->prefault(grant.offset_bytes, slot_bytes);
    attachment->beat();  // making 11 GiB present takes as long as a session may be silent
  }
}

void Stores::lost(const std::shared_ptr<Attachment>& attachment) {
  const Lock lock(mutex_);
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (at->second->attachment != attachment) {
      ++at;
      continue;
    }
    // Waiting finish() calls end now, and the chunks count as refused.
    at->second->answered = true;  // with no grants
    keys_waiting_ -= at->second->transfer.hashes.size();
    at = waiting_.erase(at);
  }
  for (const BatchPtr& batch : submitted_)
    static_cast<void>(make_jobs(*batch, lock));  // makes no job: there are no grants
  answered_.notify_all();
}

std::vector<protocol::SlotRef> Stores::still_writing() const {
  const std::lock_guard lock(mutex_);
  std::vector<protocol::SlotRef> refs;
  for (const auto& job : writing_)
    for (const StoreJob::Chunk& chunk : job->chunks())
      refs.push_back({chunk.record.slot, 0, chunk.record.generation});
  return refs;
}

// Gives back the begun reservations that `wanted` selects and that belong to no batch.
template <typename Wanted>
void Stores::give_up(const Wanted& wanted) {
  const Lock lock(mutex_);
  std::erase_if(begun_, [&](const ReservationPtr& reservation) {
    if (reservation->batch || !wanted(*reservation)) return false;
    reservation->abandoned = true;  // granted() disowns a later answer
    disown(*reservation->attachment, reservation->grants);
    counted_.refused += reservation->transfer.hashes.size();
    --running_;
    return true;
  });
}

void Stores::abandon() {
  give_up([](const Reservation&) { return true; });
}

void Stores::asked(const std::shared_ptr<Attachment>& attachment,
                   const std::vector<protocol::SlotRef>& grants) {
  LARDER_POINT(grants_asked);
  // larderd asks about old grants. Unfinished stores of the engine are given up now.
  const auto oldest = Clock::now() - max_age_;
  give_up([&](const Reservation& reservation) { return reservation.begun < oldest; });
  std::vector<protocol::SlotRef> written, stopped;
  const Lock lock(mutex_);
  std::unordered_set<std::uint64_t> wanted;  // generations, which never repeat
  for (const ReservationPtr& reservation : begun_)
    for (const protocol::Grant& grant : reservation->grants)
      if (is_granted(grant)) wanted.insert(grant.generation);
  for (const auto& job : writing_)
    for (const StoreJob::Chunk& chunk : job->chunks())
      wanted.insert(chunk.record.generation);  // mutation: tells-written
  for (const protocol::SlotRef& ref : grants)
    (wanted.contains(ref.generation) ? written : stopped).push_back(ref);
  send_list(attachment->outbox(), MessageType::kStillWriting, written);
  LARDER_POINT(still_writing_sent);
  send_list(attachment->outbox(), MessageType::kDisown, stopped);
}

// After the loss of a session, the next session tells larderd that the slots have no writer. Until
// there is a next session, stopped_ keeps the slots.
void Stores::writer_stopped(const StoreJob& job) {
  if (!job.attachment().outbox().closed()) return;
  LARDER_POINT(orphan_written);
  const Lock lock(mutex_);
  for (const StoreJob::Chunk& chunk : job.chunks())
    stopped_.push_back({chunk.record.slot, 0, chunk.record.generation});
  tell_stopped();
}

// REQUIRES: mutex_ is held.
void Stores::tell_stopped() {
  const std::shared_ptr<Attachment> newest = newest_.lock();
  const bool alive = newest && !newest->outbox().closed();
  if (alive) send_list(newest->outbox(), MessageType::kDisown, stopped_);
  // The list may be dropped when it is too long: the lock of the lost session tells larderd too.
  if (alive || stopped_.size() > protocol::kMaxGrants) stopped_.clear();
}

void Stores::attached(const std::shared_ptr<Attachment>& attachment) {
  const Lock lock(mutex_);
  newest_ = attachment;
  tell_stopped();
}

}  // namespace larder::client
