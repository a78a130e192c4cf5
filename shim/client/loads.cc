#include "shim/client/loads.h"

#include <algorithm>
#include <new>

#include "shim/protocol/test_point.h"

namespace larder::client {
namespace {

// Whole chunks, each verified by its root.
class ChunkLoad final : public LoadJob {
 public:
  ChunkLoad(const LoadRoom& room, LoadOrder order) : LoadJob(room, std::move(order), order.transfer.hashes.size()) {}

 private:
  Code copy_part(std::size_t chunk) override {
    std::vector<std::byte*> pieces;
    pieces_of(chunk, pieces);
    Source source;  // lets go also where the copy throws
    if (const Code code = find(chunk, source); code != Code::kOk) return code;
    const Status copied = load_chunk(source, {pieces, group().piece_bytes, after()});
    const bool still = still_there(source);
    LARDER_POINT(load_copied);
    source.held.reset();
    LARDER_POINT(load_hold_released);
    if (const Code code = ended_as(copied, source, still); code != Code::kOk) return code;
    touch(source);
    bytes_ += group().payload_bytes();
    return Code::kOk;
  }
};

}  // namespace

Result<std::uint64_t> Loads::start(std::shared_ptr<Attachment> attachment, Transfer transfer, std::uint32_t start_within_ms,
                                   std::shared_ptr<const copy::Fence> after, bool by_layer) {
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (outstanding_ == kMaxLoads) return Status(Code::kResourceExhausted, "too many loads are not polled yet");
    ++outstanding_;
    ticket = ++last_ticket_;
  }
  ++running_;
  try {
    if (submit({std::move(attachment), std::move(transfer), start_within_ms, std::move(after), ticket}, by_layer)) return ticket;
  } catch (const std::bad_alloc&) {  // refused as well
  }
  --running_;
  const std::lock_guard lock(mutex_);
  by_layer_.erase(ticket);
  --outstanding_;
  return Status(Code::kResourceExhausted, "the queue of copies is full");
}

// A load by layers is known before it begins: it may end at once.
bool Loads::submit(LoadOrder order, bool by_layer) {
  if (!by_layer) return pool_.submit(std::make_shared<ChunkLoad>(room_, std::move(order)));
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

Status Loads::wait_layer(std::uint64_t ticket, std::uint32_t layer, std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  const auto known = by_layer_.find(ticket);
  if (known == by_layer_.end()) return {Code::kNotFound, "no load by layers that is not polled has this ticket"};
  const std::shared_ptr<const LayerLoad> job = known->second;
  if (layer >= job->layers())
    return {Code::kInvalidArgument, "layer " + std::to_string(layer) + " of a group of " + std::to_string(job->layers())};
  layer_ended_.wait_for(lock, wait, [&] { return job->done(layer) || job->failure() != Code::kOk; });
  if (job->done(layer)) return {};
  const Code failure = job->failure();
  if (failure == Code::kDeadlineExceeded)
    return {Code::kUnavailable, "the load began too late"};  // or it would read as "not yet"
  if (failure != Code::kOk) return {failure, "the load has failed"};
  return {Code::kDeadlineExceeded, "the layer is not loaded yet"};
}

std::vector<Completion> Loads::poll(std::size_t max, std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, wait, [this] { return !completed_.empty() || outstanding_ == 0; });
  const std::size_t count = std::min(max, completed_.size());
  std::vector<Completion> taken(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(count));
  completed_.erase(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(count));
  for (const Completion& done : taken) by_layer_.erase(done.ticket);
  outstanding_ -= count;
  return taken;
}

void Loads::complete(const Completion& completion) noexcept {
  --running_;
  const std::lock_guard lock(mutex_);
  completed_.push_back(completion);
  ended_.notify_all();
  layer_ended_.notify_all();
}

}  // namespace larder::client
