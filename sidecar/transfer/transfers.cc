#include "sidecar/transfer/transfers.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <new>

#include "shim/protocol/checksum.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/transfer/transfers_state.h"

namespace larder::transfer {

using copy::TransferRefusal;
using protocol::CopyVerb;
using protocol::TransferReason;

namespace {

// A load only reads the slot. A store whose chunk is gone has no pieces and leaves the slot alone.
bool writes(const CopyOrder& order) {
  return order.verb == CopyVerb::kStore && !order.pieces.empty();
}

}  // namespace

Transfers::Transfers(std::unique_ptr<copy::MemoryImporter> importer, std::span<std::byte> arena,
                     std::function<void()> wake, int arena_file)
    : importer_(std::move(importer)),
      arena_(arena),
      arena_file_(arena_file),
      wake_(std::move(wake)) {
  // A CUDA context takes long to make, so a thread makes one before the first engine asks.
  queue_.emplace_back([this] { prepare(); });
  for (unsigned i = 0; i < kThreads; ++i) threads_.emplace_back(&Transfers::work, this);
}

Transfers::~Transfers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    // Waiting copies are dropped: their engines see the end of larderd's lock and copy by
    // themselves.
    queue_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  // The copies refer to sessions and memory, so they go first.
  writing_.clear();
  sessions_.clear();  // closes their memory before the devices
}

void Transfers::work() {
  pthread_setname_np(pthread_self(), "larder-transfer");
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (closing_) return;
    // Moved out of the queue, then run without the lock: a copy takes milliseconds, and the loop
    // must be able to queue more.
    const std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

// Makes a context ahead of the first engine. A failure costs only time: the importer makes a
// context at the first EXPORT.
void Transfers::prepare() {
  try {
    importer_->prepare();
  } catch (const std::bad_alloc&) {
    // A log line would need memory too.
  } catch (const std::exception& error) {
    base::log_refusal(
        "transfer", "prepare", base::LogLevel::kWarning,
        std::string("transfer: sidecar: no context was made ahead of the first engine: ") +
            error.what());
  }
}

// REQUIRES: the mutex is held.
void Transfers::add(std::function<void()> task) {
  queue_.push_back(std::move(task));
  changed_.notify_one();
}

void Transfers::declined(std::uint32_t session, TransferRefusal why) {
  const Lock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end())
    declined_[session] = std::move(why);
  else if (found->second->way.refusal.reason != why.reason)  // else the text of larderd says more
    found->second->way = {false, std::move(why)};
}

Status Transfers::withdraw(std::uint32_t session, std::uint32_t request) {
  const Lock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {Code::kFailedPrecondition, "nothing is exported"};
  // One answer for each WITHDRAW, and one place to note its request number.
  if (found->second->withdrawing) return {Code::kFailedPrecondition, "one is under way"};
  found->second->withdrawing = request;
  // The withdrawal counts as a task. The last task closes the memory, so all earlier copies have
  // ended by then.
  ++found->second->tasks;
  add([this, own = found->second] { task_ended(own); });
  return {};
}

Status Transfers::copy(std::uint32_t session, CopyOrder order) {
  const Lock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {Code::kFailedPrecondition, "nothing is exported"};
  Session& own = *found->second;
  if (order.flag >= protocol::kMaxCopies)
    return {Code::kInvalidArgument, "there is no flag " + std::to_string(order.flag)};
  if (own.withdrawing || own.memory->empty())
    order.pieces.clear();  // the COPY crossed a WITHDRAW or a refusal
  // Bounds the queue for each session. A correct engine has at most one copy a flag.
  if (own.tasks >= kMaxTasks) return {Code::kResourceExhausted, "too much is asked at once"};
  // Checked here and not on the copy thread: a wrong piece ends the session of the engine that sent
  // the COPY.
  for (const std::uint64_t piece : order.pieces) {
    if (piece == protocol::kNoPiece && order.verb == CopyVerb::kLoad) continue;
    const std::uint64_t range = protocol::piece_range(piece),
                        offset = protocol::piece_offset(piece);
    if (range >= own.memory->size())
      return {Code::kInvalidArgument, "a piece is in no allocation that was exported"};
    const std::uint64_t bytes = (*own.memory)[range]->bytes().size();
    // Two comparisons, because offset + piece_bytes could overflow.
    if (offset > bytes || order.piece_bytes > bytes - offset)
      return {Code::kInvalidArgument, "a piece is not within its allocation"};
  }
  ++own.tasks;
  const auto copying =
      std::make_shared<Copying>(Copying{std::move(order), found->second, own.memory});
  if (writes(copying->order)) writing_.emplace(copying->order.generation, copying);
  add([this, copying] {
    run_copy(copying);
    // Before the task ends: after the last task the memory must have no user, or close() would not
    // close the handles.
    copying->memory.reset();
    task_ended(copying->session);
  });
  return {};
}

// REQUIRES: the mutex is held.
void Transfers::forget_writing(const std::shared_ptr<Copying>& copying) {
  const auto [first, last] = writing_.equal_range(copying->order.generation);
  const auto at = std::find_if(first, last, [&](const auto& one) { return one.second == copying; });
  if (at != last) writing_.erase(at);
}

// Runs one copy. In every case the flag is ended last, after the last write.
void Transfers::run_copy(const std::shared_ptr<Copying>& copying) {
  const CopyOrder& order = copying->order;
  const SessionPtr& session = copying->session;
  std::shared_ptr<Device> device;
  {
    const Lock lock(mutex_);
    // Under the mutex, as in release(): a COMMIT either finds the copy void, or is refused because
    // the copy runs.
    if (copying->state != Copying::State::kVoid &&
        session->region.take(order.flag)) {  // mutation: copy-withdrawn-skip
      copying->state = Copying::State::kTaken;
      // Without a device no byte moves, and the flag reports kNotFound.
      if (!session->ended && !order.pieces.empty()) device = session->device;
    }
  }
  Result<std::uint64_t> root =
      Status(Code::kNotFound, "the chunk or the session is gone, or the engine did not wait");
  if (device) {
    try {
      root = move(order, *copying->memory, *device->engine);
    } catch (const std::exception& error) {  // no memory, or no thread
      root = Status(Code::kResourceExhausted, error.what());
    }
  }
  {
    const Lock lock(mutex_);
    forget_writing(copying);
    if (root.ok()) {
      ++(order.verb == CopyVerb::kStore ? counts_.stores : counts_.loads);
      counts_.bytes += order.pieces.size() * order.piece_bytes;
    } else if (device) {
      ++counts_.failed;
    }
    // After a CUDA error the context may be unusable. larderd copies no more on this device, and
    // each engine withdraws when its copy reports the error.
    if (device && root.status().code() == Code::kUnavailable) {
      if (device->failure.empty()) device->failure = root.status().text();
      session->way = {false, {TransferReason::kFailed, device->failure}};
    }
  }
  // Last of all: the engine may free or commit the slot as soon as the flag has ended.
  session->region.end(order.flag, root.status().code(), root.ok() ? *root : 0);
}

Result<std::uint64_t> Transfers::move(const CopyOrder& order, const Memory& memory,
                                      const copy::CopyEngine& engine) const {
  std::vector<std::byte*> pieces;
  pieces.reserve(order.pieces.size());
  for (const std::uint64_t piece : order.pieces)
    // A load may leave pieces out: the engine has no page for them.
    pieces.push_back(piece == protocol::kNoPiece
                         ? nullptr
                         : memory[protocol::piece_range(piece)]->bytes().data() +
                               protocol::piece_offset(piece));
  const copy::PieceList list{pieces, order.piece_bytes, nullptr};
  const std::span<std::byte> slot =
      arena_.subspan(order.offset_bytes,
                     protocol::slot_bytes(pieces.size() * order.piece_bytes, order.piece_bytes));
  if (order.verb == CopyVerb::kStore) return engine.store(list, slot);
  // The copy engine verifies each unit as written on the device against the root, so a damaged
  // chunk is no success.
  if (Status loaded = engine.load(slot, order.root, list); !loaded.ok()) return loaded;
  return order.root;
}

void Transfers::end_session(std::uint32_t session) {
  const Lock lock(mutex_);
  declined_.erase(session);
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second->ended) return;
  // The end counts as a task too: the memory closes behind the last copy, on a copy thread.
  found->second->ended = true;
  ++found->second->tasks;
  add([this, own = found->second] { task_ended(own); });
}

// The last task of a session that ends or withdraws closes its memory, on a copy thread, because a
// driver may be slow.
void Transfers::task_ended(const SessionPtr& session) {
  {
    const Lock lock(mutex_);
    if (--session->tasks != 0 || session->closing || (!session->ended && !session->withdrawing))
      return;
    session->closing = true;
  }
  close(session);
}

void Transfers::close(const SessionPtr& session) {
  std::shared_ptr<const Memory> memory;
  {
    const Lock lock(mutex_);
    // Destroyed without the lock, because a driver may be slow.
    memory = std::exchange(session->memory, std::make_shared<Memory>());
  }
  memory.reset();
  const Lock lock(mutex_);
  session->closing = false;
  // After a WITHDRAW the engine may export again, for example with another layout.
  session->refused = {};
  if (session->withdrawing) {
    answers_.push_back({session->number, *session->withdrawing, true, {}, false});
    session->withdrawing.reset();
    wake_();
  }
  if (session->way.sidecar) session->way = {};
  // A session that ended during the close has no open memory; its own last task still follows.
  if (!session->ended || session->tasks != 0) return;
  sessions_.erase(session->number);
  // The slots of the session become free only now. The loop releases the quarantine
  // (EndedSessions::release()).
  freed_ = true;
  wake_();
}

bool Transfers::busy(std::uint32_t session) const {
  const Lock lock(mutex_);
  return sessions_.contains(session);
}

bool Transfers::release(std::uint64_t generation) {
  const Lock lock(mutex_);
  const auto [first, last] = writing_.equal_range(generation);
  for (auto at = first; at != last; ++at) {
    Copying& copying = *at->second;
    if (copying.state == Copying::State::kQueued &&
        copying.session->region.cancelled(copying.order.flag))  // mutation: copy-waiting-commit
      copying.state = Copying::State::kVoid;                    // mutation: copy-withdrawn
    if (copying.state != Copying::State::kVoid) return false;   // mutation: copy-begun-commit
  }
  return true;
}

std::vector<Answer> Transfers::take_answers() {
  const Lock lock(mutex_);
  return std::exchange(answers_, {});
}

bool Transfers::take_freed() {
  const Lock lock(mutex_);
  return std::exchange(freed_, false);
}

int Transfers::region_fd(std::uint32_t session) const {
  const Lock lock(mutex_);
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? -1 : found->second->region.fd();
}

Way Transfers::way(std::uint32_t session) const {
  const Lock lock(mutex_);
  if (const auto found = sessions_.find(session); found != sessions_.end())
    return found->second->way;
  const auto declined = declined_.find(session);
  return declined == declined_.end() ? Way() : Way{false, declined->second};
}

Counts Transfers::counts() const {
  const Lock lock(mutex_);
  Counts now = counts_;
  now.open = open_;
  return now;
}

void Transfers::present(std::uint64_t bytes) {
  const Lock lock(mutex_);
  present_ = bytes;
  for (const auto& [id, device] : devices_)
    if (device && device->ready) device->ready->present(bytes);
}

}  // namespace larder::transfer
