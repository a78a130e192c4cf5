#include "shim/client/load_job.h"

#include <algorithm>

#include "shim/base/test_point.h"
#include "shim/protocol/codec.h"

namespace larder::client {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
}

// The reasons of EventKind::kLoadFailed.
std::uint64_t failure_reason(Code code) {
  switch (code) {
    case Code::kDataLoss: return 1;
    case Code::kNotFound: return 2;
    case Code::kDeadlineExceeded: return 3;
    default: return 4;
  }
}

}  // namespace

LoadJob::LoadJob(const LoadRoom& room, LoadOrder&& order, std::size_t parts)
    : CopyJob(parts),
      room_(room),
      order_(std::move(order)),
      group_(room.spec.groups[order_.transfer.group]),
      handle_(order_.attachment->namespace_handle(order_.transfer.ns)),
      part_count_(parts),
      begun_(Clock::now()),
      deadline_(begun_ + std::chrono::milliseconds(order_.start_within_ms)) {}

bool LoadJob::copy(std::size_t part) {
  Code code = start() ? Code::kOk : Code::kDeadlineExceeded;
  try {
    if (code == Code::kOk) {
      await_fence();
      code = copy_part(part);
    }
  } catch (const std::exception&) {
    code = Code::kInternal;
  }
  if (code == Code::kOk) {
    ++parts_copied_;
    return true;
  }
  // The first failure is the status of the load. Later ones are often its consequence.
  Code none = Code::kOk;
  failure_.compare_exchange_strong(none, code);
  return false;
}

void LoadJob::finished() {
  const auto now = Clock::now();
  const Clock::time_point started =
      copying_ns_ == 0 ? now : begun_ + std::chrono::nanoseconds(copying_ns_);
  if (failure_ == Code::kOk && parts_copied_ < part_count_)
    failure_ = Code::kUnavailable;  // the client is closing
  Completion done;
  done.ticket = order_.ticket;
  done.status = failure_;
  done.bytes = bytes_;
  done.wait_ns = ns_between(begun_, started);
  done.copy_ns = ns_between(started, now);
  ending(done.status == Code::kOk);
  report(done);
  LARDER_POINT(load_ended);
  // Before the completion: the engine may close the client as soon as it has polled.
  order_.attachment.reset();
  room_.ended(done);
}

// False: the deadline has passed. The first thread decides for all.
bool LoadJob::start() {
  const auto now = Clock::now();
  const std::int64_t mine =
      now > deadline_ ? kTooLate : std::max<std::int64_t>(1, (now - begun_).count());
  // One exchange decides for all threads: half a load would be of no use to the engine.
  std::int64_t decided = 0;
  if (started_ns_.compare_exchange_strong(decided, mine)) decided = mine;
  return decided != kTooLate;
}

// The engine's own work before the fence, up to a whole forward pass, does not count as copy time.
// The copy itself finds and reports an error of the device. A copy by larderd waits for the fence
// as late as possible (SidecarCopies::ask), so its copy time includes the wait.
void LoadJob::await_fence() {
  const bool by_larderd = room_.sidecar != nullptr && room_.sidecar->open();
  if (order_.after != nullptr && !by_larderd) static_cast<void>(order_.after->wait());
  std::int64_t none = 0;
  copying_ns_.compare_exchange_strong(none,
                                      std::max<std::int64_t>(1, (Clock::now() - begun_).count()));
}

Code LoadJob::find(std::size_t chunk, Source& source) {
  const Transfer& transfer = order_.transfer;
  Attachment& attachment = *order_.attachment;
  const protocol::IndexReader& index = attachment.index();
  if (index.dead()) return Code::kNotFound;  // larderd no longer keeps the chunks of a dead index
  const auto view =
      index.find({transfer.hashes[chunk], handle_, transfer.shard, transfer.key_group});
  if (!view) return Code::kNotFound;
  // Key, generation, place and root must belong together, or the bytes of another chunk would
  // verify. No BAD: larderd would look into the same damaged entry.
  if (view->record != protocol::record_checksum(*view)) return Code::kDataLoss;
  if (view->payload_bytes != group_.payload_bytes() || view->piece_bytes != group_.piece_bytes)
    return Code::kDataLoss;
  const std::span<const std::byte> slot = attachment.slot(view->offset_bytes, group_.slot_bytes());
  // An entry with memory outside of the arena is damaged.
  if (slot.empty()) return Code::kDataLoss;
  LARDER_POINT(load_found);
  // From here on larderd does not reuse the slot. acquire() looks again at the generation.
  const auto place = attachment.holds().acquire(index, view->slot, view->generation);
  if (!place) return Code::kNotFound;
  source.view = *view;
  source.slot = slot;
  source.held.emplace(attachment.holds(), *place);
  return Code::kOk;
}

bool LoadJob::still_there(const Source& source) const {
  return order_.attachment->index().still_committed(source.view.slot, source.view.generation);
}

Code LoadJob::ended_as(const Status& copied, const Source& source, bool still_there) {
  if (copied.ok()) return Code::kOk;
  if (!still_there)
    return Code::kNotFound;  // the slot was reused during the copy: late, not damaged
  if (copied.code() == Code::kDataLoss)
    send_bad(source.view);  // other failures belong to this engine, not to the slot
  return copied.code();
}

Status LoadJob::load_chunk(const Source& source, const copy::PieceList& to) {
  if (room_.sidecar == nullptr) return room_.engine.load(source.slot, source.view.root, to);
  // Falls back to the engine's own copy in the same call.
  return room_.sidecar->load(*order_.attachment, {source.view.slot, 0, source.view.generation},
                             source.view.root, source.slot, to);
}

void LoadJob::touch(const protocol::EntryView& view) {
  order_.attachment->events().add({protocol::EventKind::kTouch, view.slot, view.generation});
}

void LoadJob::pieces_of(std::size_t chunk, std::vector<std::byte*>& pieces) const {
  chunk_pieces(room_.pages[order_.transfer.group],
               order_.transfer.pages.data() + chunk * group_.blocks_per_chunk,
               group_.blocks_per_chunk, pieces);
}

void LoadJob::send_bad(const protocol::EntryView& view) {
  protocol::Encoder message(protocol::MessageType::kBad, 0);
  message.append(protocol::SlotList{1, 0}).append(protocol::SlotRef{view.slot, 0, view.generation});
  order_.attachment->outbox().send(message.packet());
  LARDER_POINT(bad_sent);
}

void LoadJob::report(const Completion& done) {
  EventFields event;
  event.kind =
      done.status == Code::kOk ? protocol::EventKind::kLoad : protocol::EventKind::kLoadFailed;
  event.a = done.status == Code::kOk ? done.bytes : failure_reason(done.status);
  // A chunk has many parts, and the tokens must be counted once.
  event.b = done.bytes / group_.payload_bytes() * order_.transfer.counted_tokens;
  event.c = done.wait_ns;
  event.d = done.copy_ns;
  order_.attachment->events().add(event);
}

}  // namespace larder::client
