#include "shim/client/loads.h"

#include <algorithm>
#include <new>
#include <ranges>

#include "shim/base/test_point.h"

namespace larder::client {
namespace {

// A load of whole chunks, each verified by its root. With some copy engines a thread copies several
// chunks at once, at the cost of one wait.
class ChunkLoad final : public LoadJob {
 public:
  ChunkLoad(const LoadRoom& room, LoadOrder order, std::size_t at_once)
      : LoadJob(room, std::move(order), (order.transfer.hashes.size() + at_once - 1) / at_once),
        at_once_(at_once),
        loaded_(transfer().hashes.size()) {}

  // So many that each thread has a part of the load, and no more than CopyEngine::joined_bytes().
  static std::size_t chunks_at_once(const LoadRoom& room, const Transfer& transfer,
                                    std::size_t threads) {
    const bool by_sidecar = room.sidecar != nullptr && room.sidecar->open();
    const std::uint64_t payload_bytes = room.spec.groups[transfer.group].payload_bytes();
    const std::size_t most = by_sidecar ? 0 : room.engine.joined_bytes() / payload_bytes;
    return std::clamp<std::size_t>((transfer.hashes.size() + threads - 1) / threads, 1,
                                   std::max<std::size_t>(most, 1));
  }

 private:
  struct One {
    Source source;  // releases the hold even if the copy throws
    std::vector<std::byte*> pieces;
    std::vector<std::uint64_t> digests;
  };

  Code copy_part(std::size_t part) override {
    const std::size_t first = part * at_once_;
    const std::size_t count = std::min(at_once_, transfer().hashes.size() - first);
    // One chunk needs no digest table in this process: the copy engine verifies by the root.
    if (count == 1) return copy_one(first);
    std::vector<One> chunks(count);
    for (std::size_t i = 0; i < count; ++i)
      if (const Code code = find(first + i, chunks[i].source); code != Code::kOk) return code;
    const Status copied = copy_joined(first, chunks);
    // A second copy, chunk by chunk, finds the damaged one.
    if (copied.code() == Code::kDataLoss) {
      chunks.clear();
      return copy_each(first, count);
    }
    return ended(copied, first, chunks);
  }

  Code copy_each(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      if (const Code code = copy_one(first + i); code != Code::kOk) return code;
    return Code::kOk;
  }

  Code copy_one(std::size_t chunk) {
    std::vector<One> one(1);
    pieces_of(chunk, one[0].pieces);
    if (const Code code = find(chunk, one[0].source); code != Code::kOk) return code;
    return ended(load_chunk(one[0].source, {one[0].pieces, group().piece_bytes, after()}), chunk,
                 one);
  }

  // Verifies each chunk by its digest table, and each table by the root.
  Status copy_joined(std::size_t first, std::vector<One>& chunks) {
    std::vector<copy::ChunkPart> parts;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      One& one = chunks[i];
      pieces_of(first + i, one.pieces);
      one.digests.resize(protocol::digest_count(group().payload_bytes(), group().piece_bytes));
      if (Status status = copy::verified_digests(one.source.slot, group().payload_bytes(),
                                                 one.source.view.root, one.digests);
          !status.ok())
        return status;
      parts.push_back({one.source.slot.first(group().payload_bytes()), one.pieces, one.digests});
    }
    return engine().load_parts(parts, group().piece_bytes, after());
  }

  Code ended(const Status& copied, std::size_t first, std::vector<One>& chunks) {
    std::vector<std::uint8_t> still;
    for (const One& one : chunks) still.push_back(still_there(one.source) ? 1 : 0);
    LARDER_POINT(load_copied);
    // The question about the slots comes before the release: afterwards a slot may have a new
    // chunk.
    for (One& one : chunks) one.source.held.reset();
    LARDER_POINT(load_hold_released);
    for (std::size_t i = 0; i < chunks.size(); ++i)
      if (const Code code = ended_as(copied, chunks[i].source, still[i] != 0); code != Code::kOk)
        return code;
    for (std::size_t i = 0; i < chunks.size(); ++i) loaded_[first + i] = chunks[i].source.view;
    bytes_ += chunks.size() * group().payload_bytes();
    return Code::kOk;
  }

  void ending(bool well) override {
    if (!well) return;
    for (const protocol::EntryView& view : std::views::reverse(loaded_)) touch(view);
  }

  const std::size_t at_once_;
  std::vector<protocol::EntryView> loaded_;  // each element by one thread
};

}  // namespace

Result<std::uint64_t> Loads::start(std::shared_ptr<Attachment> attachment, Transfer transfer,
                                   std::uint32_t start_within_ms,
                                   std::shared_ptr<const copy::Fence> after, bool by_layer) {
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (outstanding_ == kMaxLoads)
      return Status(Code::kResourceExhausted, "too many loads are not polled yet");
    // Counted before the load begins and until it is polled: the bound covers completions without
    // a poll.
    ++outstanding_;
    ticket = ++last_ticket_;
  }
  ++running_;
  try {
    if (submit(
            {std::move(attachment), std::move(transfer), start_within_ms, std::move(after), ticket},
            by_layer))
      return ticket;
  } catch (const std::bad_alloc&) {  // refused, like a full queue
  }
  --running_;
  const std::lock_guard lock(mutex_);
  // A refused load has no completion, so nobody else would remove the entry.
  by_layer_.erase(ticket);
  --outstanding_;
  return Status(Code::kResourceExhausted, "the queue of copies is full");
}

// A load by layers is entered in by_layer_ before the pool has it, because the load can end at
// once.
bool Loads::submit(LoadOrder order, bool by_layer) {
  if (!by_layer) {
    const std::size_t at_once = ChunkLoad::chunks_at_once(room_, order.transfer, pool_.threads());
    return pool_.submit(std::make_shared<ChunkLoad>(room_, std::move(order), at_once));
  }
  const std::uint64_t ticket = order.ticket;
  const auto job = std::make_shared<LayerLoad>(room_, std::move(order));
  job->on_layer([this] {
    const std::lock_guard lock(mutex_);
    layer_ended_.notify_all();
  });
  {
    const std::lock_guard lock(mutex_);
    by_layer_.emplace(ticket, job);
  }
  return pool_.submit(job);
}

Status Loads::wait_layer(std::uint64_t ticket, std::uint32_t layer,
                         std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  const auto known = by_layer_.find(ticket);
  if (known == by_layer_.end())
    return {Code::kNotFound, "no load by layers that is not polled has this ticket"};
  const std::shared_ptr<const LayerLoad> job = known->second;
  if (layer >= job->layers())
    return {Code::kInvalidArgument,
            "layer " + std::to_string(layer) + " of a group of " + std::to_string(job->layers())};
  layer_ended_.wait_for(lock, wait,
                        [&] { return job->done(layer) || job->failure() != Code::kOk; });
  // Before the failure: a finished layer may be used, even if a later one has failed meanwhile.
  if (job->done(layer)) return {};
  const Code failure = job->failure();
  if (failure == Code::kDeadlineExceeded)
    return {Code::kUnavailable,
            "the load began too late"};  // kDeadlineExceeded would mean "not yet"
  if (failure != Code::kOk) return {failure, "the load has failed"};
  return {Code::kDeadlineExceeded, "the layer is not loaded yet"};
}

std::vector<Completion> Loads::poll(std::size_t max, std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  // Returns at once with nothing outstanding: no completion can come.
  ended_.wait_for(lock, wait, [this] { return !completed_.empty() || outstanding_ == 0; });
  const std::size_t count = std::min(max, completed_.size());
  std::vector<Completion> taken(completed_.begin(),
                                completed_.begin() + static_cast<std::ptrdiff_t>(count));
  completed_.erase(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(count));
  for (const Completion& done : taken) by_layer_.erase(done.ticket);
  outstanding_ -= count;
  return taken;
}

void Loads::complete(const Completion& completion) noexcept {
  --running_;
  const std::lock_guard lock(mutex_);
  // Cannot fail: the loads are bounded by kMaxLoads.
  completed_.push_back(completion);
  ended_.notify_all();
  layer_ended_.notify_all();
}

}  // namespace larder::client
