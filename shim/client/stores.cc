#include "shim/client/stores.h"

#include <algorithm>
#include <unordered_set>

#include "shim/protocol/codec.h"
#include "shim/protocol/test_point.h"

namespace larder::client {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::GrantStatus;
using protocol::MessageType;

constexpr std::uint32_t kLastRequest = (1U << 30) - 1;  // numbers above are those of Namespaces

// Sends records of one type in messages within the limits. False: the session is lost.
template <typename Record>
bool send_list(Outbox& outbox, MessageType type, const std::vector<Record>& records) {
  std::span<const Record> rest(records);
  while (!rest.empty()) {
    const auto part = rest.first(std::min<std::size_t>(rest.size(), protocol::kMaxGrantsPerMessage));
    rest = rest.subspan(part.size());
    protocol::Encoder message(type, 0);
    message.append(protocol::SlotList{static_cast<std::uint32_t>(part.size()), 0}).append_all(part);
    if (!outbox.send(message.packet())) return false;
  }
  return true;
}

bool is_granted(const protocol::Grant& grant) {
  return grant.status == static_cast<std::uint32_t>(GrantStatus::kGranted);
}

void disown(Attachment& attachment, const std::vector<protocol::Grant>& grants) {
  std::vector<protocol::SlotRef> refs;
  for (const protocol::Grant& grant : grants)
    if (is_granted(grant)) refs.push_back({grant.slot, 0, grant.generation});
  send_list(attachment.outbox(), MessageType::kDisown, refs);
  LARDER_POINT(disown_sent);
}

}  // namespace

// The granted chunks of one RESERVE.
class Stores::Job final : public CopyJob {
 public:
  struct Chunk {
    const std::uint32_t* pages;
    std::span<std::byte> slot;
    protocol::CommitRecord record;
  };

  Job(const Stores& stores, PendingPtr pending, std::vector<Chunk> chunks, const copy::Fence* after)
      : CopyJob(chunks.size()),
        stores_(stores),
        pending_(std::move(pending)),
        chunks_(std::move(chunks)),
        after_(after),
        written_(chunks_.size()) {}

  bool copy(std::size_t part) override {
    const Group& group = stores_.spec_.groups[pending_->transfer.group];
    if (stores_.engine_.outlives_process() && !attachment().tell_device_writes()) return false;
    try {
      std::vector<std::byte*> pieces;
      chunk_pieces(stores_.pages_[pending_->transfer.group], chunks_[part].pages, group.blocks_per_chunk, pieces);
      const copy::PieceList list{pieces, group.piece_bytes, after_};
      Chunk& chunk = chunks_[part];
      const protocol::SlotRef ref{chunk.record.slot, 0, chunk.record.generation};
      const Result<std::uint64_t> root = stores_.sidecar_ != nullptr
                                             ? stores_.sidecar_->store(attachment(), ref, list, chunk.slot)
                                             : stores_.engine_.store(list, chunk.slot);
      if (!root.ok()) return false;
      chunks_[part].record.root = *root;
    } catch (const std::exception&) {
      return false;
    }
    written_[part] = 1;
    return true;
  }
  void finished() override {}

  Attachment& attachment() const { return *pending_->attachment; }
  bool first_part() const { return is_first_part(pending_->transfer); }
  const Group& group() const { return stores_.spec_.groups[pending_->transfer.group]; }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  std::uint64_t copy_ns() const { return copy_ns_; }
  void set_copy_ns(std::uint64_t ns) { copy_ns_ = ns; }
  bool written(std::size_t part) const { return written_[part] != 0; }

 private:
  const Stores& stores_;
  const PendingPtr pending_;
  std::vector<Chunk> chunks_;
  const copy::Fence* const after_;  // of finish(), which waits for this job
  std::uint64_t copy_ns_ = 0;
  std::vector<std::uint8_t> written_;  // each element by one thread
};

void Stores::begin(const std::shared_ptr<Attachment>& attachment, const Transfer& transfer, bool index_is_good) {
  if (!attachment || attachment->namespace_handle(transfer.ns) == Attachment::kNoHandle) {
    const std::lock_guard lock(mutex_);
    counted_.refused += transfer.hashes.size();
    return;
  }
  const std::uint32_t blocks = spec_.groups[transfer.group].blocks_per_chunk;
  const Transfer empty{transfer.ns, transfer.shard, transfer.group, {}, {}};
  Transfer part = empty;
  std::uint64_t present = 0;
  for (std::size_t i = 0; i < transfer.hashes.size(); ++i) {
    const protocol::Key key = attachment->key(transfer.ns, transfer.hashes[i], transfer.shard, transfer.group);
    if (index_is_good && attachment->index().find(key)) {
      ++present;
      continue;
    }
    part.hashes.push_back(transfer.hashes[i]);
    const auto first = transfer.pages.begin() + static_cast<std::ptrdiff_t>(i * blocks);
    part.pages.insert(part.pages.end(), first, first + blocks);
    if (part.hashes.size() < protocol::kMaxKeysPerReserve) continue;
    reserve(attachment, std::exchange(part, empty));
  }
  if (!part.hashes.empty()) reserve(attachment, std::move(part));
  const std::lock_guard lock(mutex_);
  counted_.present += present;
}

// Registered before it is sent: the answer may be faster than this thread.
void Stores::reserve(const std::shared_ptr<Attachment>& attachment, Transfer part) {
  const std::size_t count = part.hashes.size();
  const Lock lock(mutex_);
  if (keys_waiting_ + count > protocol::kMaxGrants) {
    counted_.refused += count;
    return;
  }
  last_request_ = last_request_ % kLastRequest + 1;
  const std::uint32_t request = last_request_;
  protocol::Encoder message(MessageType::kReserve, request);
  message.append(
      protocol::Reserve{attachment->namespace_handle(part.ns), part.shard, part.group, static_cast<std::uint32_t>(count), 0});
  message.append_all(std::span<const protocol::BlockHash>(part.hashes));
  if (!attachment->outbox().send(message.packet())) {
    counted_.refused += count;
    return;
  }
  const auto pending = std::make_shared<Pending>();
  pending->attachment = attachment;
  pending->transfer = std::move(part);
  pending->begun = Clock::now();
  waiting_.emplace(request, pending);
  begun_.push_back(pending);
  keys_waiting_ += count;
  ++running_;
  LARDER_POINT(reserve_sent);
}

void Stores::granted(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                     const std::vector<protocol::Grant>& grants) {
  LARDER_POINT(granted_received);
  std::uint64_t slot_bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto at = waiting_.find(request);
    const bool ours = at != waiting_.end() && at->second->attachment == attachment;
    const bool wanted = ours && !at->second->abandoned && at->second->transfer.hashes.size() == grants.size();
    if (wanted) {
      at->second->grants = grants;
      at->second->answered = true;
      slot_bytes = spec_.groups[at->second->transfer.group].slot_bytes();
    }
    if (ours) {
      keys_waiting_ -= at->second->transfer.hashes.size();
      waiting_.erase(at);
    }
    if (wanted) answered_.notify_all();
  }
  if (slot_bytes == 0) return disown(*attachment, grants);
  for (const protocol::Grant& grant : grants) {
    if (!is_granted(grant)) continue;
    attachment->prefault(grant.offset_bytes, slot_bytes);
    attachment->beat();  // the first 11 GiB take as long as a session may be silent
  }
}

void Stores::lost(const std::shared_ptr<Attachment>& attachment) {
  const std::lock_guard lock(mutex_);
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (at->second->attachment != attachment) {
      ++at;
      continue;
    }
    at->second->answered = true;  // with no grants
    keys_waiting_ -= at->second->transfer.hashes.size();
    at = waiting_.erase(at);
  }
  answered_.notify_all();
}

std::vector<protocol::SlotRef> Stores::still_writing() const {
  const std::lock_guard lock(mutex_);
  std::vector<protocol::SlotRef> refs;
  for (const auto& job : writing_)
    for (const Job::Chunk& chunk : job->chunks()) refs.push_back({chunk.record.slot, 0, chunk.record.generation});
  return refs;
}

// Waits for the answers to what was begun; who has none by the deadline is left behind. What it returns stays in begun_.
std::vector<Stores::PendingPtr> Stores::collect(Lock& lock, Clock::time_point deadline) {
  std::vector<PendingPtr> begun;
  for (const PendingPtr& pending : begun_) {
    if (pending->finishing) continue;  // another thread's
    pending->finishing = true;
    begun.push_back(pending);
  }
  const auto all_answered = [&] {
    return std::all_of(begun.begin(), begun.end(), [](const PendingPtr& p) { return p->answered; });
  };
  answered_.wait_until(lock, deadline, all_answered);
  for (const PendingPtr& pending : begun)
    if (!pending->answered) pending->abandoned = true;
  return begun;
}

std::shared_ptr<Stores::Job> Stores::make_job(const PendingPtr& pending, const copy::Fence* after, StoreResult& result) const {
  const Group& group = spec_.groups[pending->transfer.group];
  const std::size_t count = pending->transfer.hashes.size();
  if (pending->grants.size() != count || pending->attachment->outbox().closed()) {
    result.refused += count;
    return nullptr;
  }
  std::vector<Job::Chunk> chunks;
  for (std::size_t i = 0; i < count; ++i) {
    const protocol::Grant& grant = pending->grants[i];
    const auto status = static_cast<GrantStatus>(grant.status);
    const std::span<std::byte> slot =
        is_granted(grant) ? pending->attachment->slot(grant.offset_bytes, group.slot_bytes()) : std::span<std::byte>();
    if (!slot.empty())
      chunks.push_back({pending->transfer.pages.data() + i * group.blocks_per_chunk, slot, {grant.slot, 0, grant.generation, 0}});
    else if (status == GrantStatus::kPresent || status == GrantStatus::kPending)
      ++result.present;
    else
      ++result.refused;
  }
  return chunks.empty() ? nullptr : std::make_shared<Job>(*this, pending, std::move(chunks), after);
}

// Seen alive and listed under one lock: a session that is lost from here on lists these slots when it attaches anew, and one that is
// asked about them says that they are written.
std::vector<std::shared_ptr<Stores::Job>> Stores::make_jobs(const std::vector<PendingPtr>& begun, const copy::Fence* after,
                                                            StoreResult& result) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (const PendingPtr& pending : begun) {
    if (std::shared_ptr<Job> job = make_job(pending, after, result)) jobs.push_back(job);
    std::erase(begun_, pending);
  }
  writing_.insert(writing_.end(), jobs.begin(), jobs.end());
  return jobs;
}

StoreResult Stores::finish(std::uint32_t wait_ms, const std::shared_ptr<const copy::Fence>& after) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(wait_ms);
  Lock lock(mutex_);
  const std::vector<PendingPtr> begun = collect(lock, deadline);
  StoreResult result = std::exchange(counted_, {});
  const std::vector<std::shared_ptr<Job>> jobs = make_jobs(begun, after.get(), result);
  lock.unlock();
  LARDER_POINT(store_listed);

  for (const auto& job : jobs) {
    const auto started = Clock::now();
    pool_.run(job);
    job->set_copy_ns(static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - started).count()));
    result.copy_ns += job->copy_ns();
  }

  LARDER_POINT(store_copied);
  for (const auto& job : jobs) commit(*job, result);
  lock.lock();
  for (const auto& job : jobs) std::erase(writing_, job);
  lock.unlock();
  for (const auto& job : jobs) writer_stopped(*job);
  running_ -= begun.size();
  return result;
}

void Stores::commit(Job& job, StoreResult& result) {
  std::vector<protocol::CommitRecord> records;
  std::vector<protocol::SlotRef> failed;
  for (std::size_t i = 0; i < job.chunks().size(); ++i) {
    const protocol::CommitRecord& record = job.chunks()[i].record;
    if (job.written(i))
      records.push_back(record);
    else
      failed.push_back({record.slot, 0, record.generation});
  }
  Attachment& attachment = job.attachment();
  send_list(attachment.outbox(), MessageType::kDisown, failed);
  result.refused += failed.size();
  LARDER_POINT(commit_ready);
  if (!send_list(attachment.outbox(), MessageType::kCommit, records)) {
    result.refused += records.size();
    return;
  }
  LARDER_POINT(commit_sent);
  result.stored += records.size();
  result.bytes += records.size() * job.group().payload_bytes();
  EventFields event;
  event.kind = protocol::EventKind::kStore;
  event.a = records.size() * job.group().payload_bytes();
  event.b = job.first_part() ? records.size() * spec_.chunk_tokens : 0;
  event.c = job.copy_ns();
  attachment.events().add(event);
}

// Takes out of what was begun all that is wanted and in nobody's hand, and gives it back.
template <typename Wanted>
void Stores::give_up(const Wanted& wanted) {
  const Lock lock(mutex_);
  std::erase_if(begun_, [&](const PendingPtr& pending) {
    if (pending->finishing || !wanted(*pending)) return false;
    pending->abandoned = true;  // an answer that is still to come is disowned as it comes
    disown(*pending->attachment, pending->grants);
    counted_.refused += pending->transfer.hashes.size();
    --running_;
    return true;
  });
}

void Stores::abandon() {
  give_up([](const Pending&) { return true; });
}

void Stores::asked(const std::shared_ptr<Attachment>& attachment, const std::vector<protocol::SlotRef>& grants) {
  LARDER_POINT(grants_asked);
  const auto oldest = Clock::now() - max_age_;
  give_up([&](const Pending& pending) { return pending.begun < oldest; });
  std::vector<protocol::SlotRef> written, stopped;
  const Lock lock(mutex_);
  std::unordered_set<std::uint64_t> wanted;  // generations: there are no two grants of one
  for (const PendingPtr& pending : begun_)
    for (const protocol::Grant& grant : pending->grants)
      if (is_granted(grant)) wanted.insert(grant.generation);
  for (const auto& job : writing_)
    for (const Job::Chunk& chunk : job->chunks()) wanted.insert(chunk.record.generation);
  for (const protocol::SlotRef& ref : grants) (wanted.contains(ref.generation) ? written : stopped).push_back(ref);
  send_list(attachment->outbox(), MessageType::kStillWriting, written);
  LARDER_POINT(still_writing_sent);
  send_list(attachment->outbox(), MessageType::kDisown, stopped);
}

// A lost session cannot be told that its slots are free; the next one can. Where there is none yet they wait.
void Stores::writer_stopped(const Job& job) {
  if (!job.attachment().outbox().closed()) return;
  LARDER_POINT(orphan_written);
  const Lock lock(mutex_);
  for (const Job::Chunk& chunk : job.chunks()) stopped_.push_back({chunk.record.slot, 0, chunk.record.generation});
  tell_stopped();
}

// REQUIRES: mutex_ is held.
void Stores::tell_stopped() {
  const std::shared_ptr<Attachment> newest = newest_.lock();
  const bool alive = newest && !newest->outbox().closed();
  if (alive) send_list(newest->outbox(), MessageType::kDisown, stopped_);
  // The lock of the lost session tells it too: what is too much to remember may be forgotten.
  if (alive || stopped_.size() > protocol::kMaxGrants) stopped_.clear();
}

void Stores::attached(const std::shared_ptr<Attachment>& attachment) {
  const Lock lock(mutex_);
  newest_ = attachment;
  tell_stopped();
}

}  // namespace larder::client
