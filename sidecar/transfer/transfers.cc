#include "sidecar/transfer/transfers.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "shim/protocol/checksum.h"
#include "sidecar/base/log.h"

namespace larder::transfer {

using copy::TransferRefusal;
using protocol::CopyVerb;
using protocol::TransferReason;

namespace {

bool writes(const CopyOrder& order) {
  return order.verb == CopyVerb::kStore && !order.pieces.empty();
}

}  // namespace

// Copies of all engines on one GPU, and the arena as registered with it. It stays: to make one costs a context.
struct Transfers::Device {
  std::unique_ptr<copy::CopyEngine> engine;
  std::unique_ptr<copy::ReadyMemory> ready;  // goes before the engine
  std::string failure;                       // under the mutex; not empty: nothing is copied there any more
};

// One EXPORT, until it is answered.
struct Transfers::Exporting {
  std::uint32_t request = 0;
  bool same_process = false;
  copy::DeviceId device{};
  std::vector<copy::MemoryHandle> handles;
};

// Under the mutex, but for `number` and `region`.
struct Transfers::Session {
  Session(std::uint32_t its_number, TransferMemory memory_for_flags) : number(its_number), region(std::move(memory_for_flags)) {}
  const std::uint32_t number;
  TransferMemory region;
  bool region_told = false;
  std::shared_ptr<Device> device;
  copy::DeviceId device_id{};  // of all that is open
  std::shared_ptr<const Memory> memory = std::make_shared<Memory>();
  std::deque<Exporting> exports;  // not open yet; the engine counts what it exports as they came
  bool opening = false;           // one thread sees to them
  TransferRefusal refused;        // since the last withdrawal
  std::uint32_t tasks = 0;
  bool ended = false;
  bool closing = false;
  std::optional<std::uint32_t> withdrawing;  // the request that is to be answered
  Way way;
};

// One COPY, until it has ended. Its state is larderd's own: what stands in the flag the engine can write.
struct Transfers::Copying {
  enum class State { kQueued, kTaken, kVoid };
  CopyOrder order;
  SessionPtr session;
  std::shared_ptr<const Memory> memory;  // let go before the task has ended
  State state = State::kQueued;          // under the mutex; kVoid: its engine has taken it back, and has the slot
};

Transfers::Transfers(std::unique_ptr<copy::MemoryImporter> importer, std::span<std::byte> arena, std::function<void()> wake)
    : importer_(std::move(importer)), arena_(arena), wake_(std::move(wake)) {
  for (unsigned i = 0; i < kThreads; ++i) threads_.emplace_back(&Transfers::work, this);
}

Transfers::~Transfers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  writing_.clear();
  sessions_.clear();  // what they have open, before its devices
}

void Transfers::work() {
  pthread_setname_np(pthread_self(), "larder-transfer");
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (closing_) return;
    const std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

// REQUIRES: the mutex is held.
void Transfers::add(std::function<void()> task) {
  queue_.push_back(std::move(task));
  changed_.notify_one();
}

Status Transfers::open(std::uint32_t session, std::uint32_t request, std::uint32_t process_number, const copy::DeviceId& device,
                       std::vector<copy::MemoryHandle> handles) {
  const Lock lock(mutex_);
  declined_.erase(session);
  SessionPtr& of = sessions_[session];
  if (!of) {
    Result<TransferMemory> region = TransferMemory::create();
    if (!region.ok()) {
      sessions_.erase(session);
      return region.status();
    }
    of = std::make_shared<Session>(session, std::move(*region));
  }
  if (of->withdrawing) return {Code::kFailedPrecondition, "EXPORT before WITHDRAWN"};
  if (of->tasks >= kMaxTasks) return {Code::kResourceExhausted, "too much is asked at once"};
  ++of->tasks;
  of->exports.push_back({request, process_number == static_cast<std::uint32_t>(::getpid()), device, std::move(handles)});
  if (!std::exchange(of->opening, true)) add([this, own = of] { open_in_turn(own); });
  return {};
}

// Each is a task of its session, but all are one of the queue: two threads would number the memory as it opens.
void Transfers::open_in_turn(const SessionPtr& session) {
  for (;;) {
    Exporting next;
    {
      const Lock lock(mutex_);
      session->opening = !closing_ && !session->exports.empty();
      if (!session->opening) return;
      next = std::move(session->exports.front());
      session->exports.pop_front();
    }
    run_open(session, std::move(next));
    task_ended(session);
  }
}

void Transfers::run_open(const SessionPtr& session, Exporting exporting) {
  TransferRefusal refusal;
  {
    const Lock lock(mutex_);
    refusal = session->refused;
  }
  if (exporting.same_process)
    refusal = {TransferReason::kSameProcess, "engine and larderd both have the process number " + std::to_string(::getpid()) +
                                                 ", each in its container, which CUDA refuses: start larderd again"};
  else if (!refusal.refused())
    refusal = open_or_say_why(session, exporting);
  std::shared_ptr<const Memory> dropped;  // outside the lock
  const Lock lock(mutex_);
  if (refusal.refused()) dropped = std::exchange(session->memory, std::make_shared<Memory>());
  session->refused = refusal;
  session->way = {!refusal.refused(), refusal};
  answers_.push_back({session->number, exporting.request, false, refusal, !std::exchange(session->region_told, true)});
  wake_();
}

TransferRefusal Transfers::open_or_say_why(const SessionPtr& session, Exporting& exporting) {
  try {
    return open_all(session, exporting.device, exporting.handles);
  } catch (const std::bad_alloc&) {
    return {TransferReason::kFailed, "no memory"};
  }
}

TransferRefusal Transfers::open_all(const SessionPtr& session, const copy::DeviceId& id,
                                    std::vector<copy::MemoryHandle>& handles) {
  auto opened = std::make_shared<Memory>();
  {
    const Lock lock(mutex_);
    *opened = *session->memory;
    if (!opened->empty() && session->device_id != id)
      return {TransferReason::kOtherDevice, "the engine has exported memory of another GPU before"};
  }
  if (opened->size() + handles.size() > protocol::kMaxExports)
    return {TransferReason::kBound, "more than " + std::to_string(protocol::kMaxExports) + " allocations"};
  if (TransferRefusal refusal = importer_->look(id); refusal.refused()) return refusal;
  for (copy::MemoryHandle& handle : handles) {
    std::unique_ptr<copy::ImportedMemory> memory;
    if (TransferRefusal refusal = importer_->open(id, std::move(handle), memory); refusal.refused()) return refusal;
    ++open_;
    opened->push_back({memory.release(), [this](const copy::ImportedMemory* one) {
                         delete one;
                         --open_;
                       }});
  }
  std::shared_ptr<Device> device;
  if (TransferRefusal refusal = make_device(id, *opened->front(), device); refusal.refused()) return refusal;
  const Lock lock(mutex_);
  if (!device->failure.empty()) return {TransferReason::kFailed, device->failure};
  session->device = std::move(device);
  session->device_id = id;
  counts_.opened += handles.size();
  session->memory = std::move(opened);
  return {};
}

TransferRefusal Transfers::make_device(const copy::DeviceId& id, const copy::ImportedMemory& memory,
                                       std::shared_ptr<Device>& made) {
  const std::lock_guard making(making_);
  {
    const Lock lock(mutex_);
    made = devices_[id];
  }
  if (made) return {};
  made = std::make_shared<Device>();
  const auto log = [](std::string_view level, std::string_view text) {
    if (level != "info") base::log_warning("transfer: sidecar: " + std::string(text));
  };
  Result<std::unique_ptr<copy::CopyEngine>> engine = importer_->engine(memory, log);
  if (!engine.ok()) return {TransferReason::kFailed, engine.status().text()};
  made->engine = std::move(*engine);
  try {
    made->ready = made->engine->make_ready(arena_);
  } catch (const std::system_error& error) {
    base::log_warning(std::string("transfer: sidecar: copies go through staging memory, no thread registers the arena: ") +
                      error.what());
  }
  const Lock lock(mutex_);
  if (made->ready) made->ready->present(present_);
  devices_[id] = made;
  return {};
}

void Transfers::declined(std::uint32_t session, TransferRefusal why) {
  const Lock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end())
    declined_[session] = std::move(why);
  else if (found->second->way.refusal.reason != why.reason)  // else larderd's own words say more
    found->second->way = {false, std::move(why)};
}

Status Transfers::withdraw(std::uint32_t session, std::uint32_t request) {
  const Lock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {Code::kFailedPrecondition, "nothing is exported"};
  if (found->second->withdrawing) return {Code::kFailedPrecondition, "one is under way"};
  found->second->withdrawing = request;
  ++found->second->tasks;
  add([this, own = found->second] { task_ended(own); });
  return {};
}

Status Transfers::copy(std::uint32_t session, CopyOrder order) {
  const Lock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {Code::kFailedPrecondition, "nothing is exported"};
  Session& own = *found->second;
  if (order.flag >= protocol::kMaxCopies) return {Code::kInvalidArgument, "there is no flag " + std::to_string(order.flag)};
  if (own.withdrawing || own.memory->empty()) order.pieces.clear();  // it met a WITHDRAW, or a refusal, on its way
  if (own.tasks >= kMaxTasks) return {Code::kResourceExhausted, "too much is asked at once"};
  for (const std::uint64_t piece : order.pieces) {
    if (piece == protocol::kNoPiece && order.verb == CopyVerb::kLoad) continue;
    const std::uint64_t range = protocol::piece_range(piece), offset = protocol::piece_offset(piece);
    if (range >= own.memory->size()) return {Code::kInvalidArgument, "a piece is in no allocation that was exported"};
    const std::uint64_t bytes = (*own.memory)[range]->bytes().size();
    if (offset > bytes || order.piece_bytes > bytes - offset)
      return {Code::kInvalidArgument, "a piece is not within its allocation"};
  }
  ++own.tasks;
  const auto copying = std::make_shared<Copying>(Copying{std::move(order), found->second, own.memory});
  if (writes(copying->order)) writing_.emplace(copying->order.generation, copying);
  add([this, copying] {
    run_copy(copying);
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

// Whatever happens: the flag is ended last, when nobody writes any more.
void Transfers::run_copy(const std::shared_ptr<Copying>& copying) {
  const CopyOrder& order = copying->order;
  const SessionPtr& session = copying->session;
  std::shared_ptr<Device> device;
  {
    const Lock lock(mutex_);
    if (copying->state != Copying::State::kVoid && session->region.take(order.flag)) {
      copying->state = Copying::State::kTaken;
      if (!session->ended && !order.pieces.empty()) device = session->device;
    }
  }
  Result<std::uint64_t> root = Status(Code::kNotFound, "the chunk or the session is gone, or the engine did not wait");
  if (device) {
    try {
      root = move(order, *copying->memory, *device->engine);
    } catch (const std::bad_alloc&) {
      root = Status(Code::kResourceExhausted, "no memory");
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
    if (device && root.status().code() == Code::kUnavailable) {
      if (device->failure.empty()) device->failure = root.status().text();
      session->way = {false, {TransferReason::kFailed, device->failure}};
    }
  }
  session->region.end(order.flag, root.status().code(), root.ok() ? *root : 0);
}

Result<std::uint64_t> Transfers::move(const CopyOrder& order, const Memory& memory, const copy::CopyEngine& engine) const {
  std::vector<std::byte*> pieces;
  pieces.reserve(order.pieces.size());
  for (const std::uint64_t piece : order.pieces)
    pieces.push_back(piece == protocol::kNoPiece
                         ? nullptr
                         : memory[protocol::piece_range(piece)]->bytes().data() + protocol::piece_offset(piece));
  const copy::PieceList list{pieces, order.piece_bytes, nullptr};
  const std::span<std::byte> slot =
      arena_.subspan(order.offset_bytes, protocol::slot_bytes(pieces.size() * order.piece_bytes, order.piece_bytes));
  if (order.verb == CopyVerb::kStore) return engine.store(list, slot);
  if (Status loaded = engine.load(slot, order.root, list); !loaded.ok()) return loaded;
  return order.root;
}

void Transfers::end_session(std::uint32_t session) {
  const Lock lock(mutex_);
  declined_.erase(session);
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second->ended) return;
  found->second->ended = true;
  ++found->second->tasks;
  add([this, own = found->second] { task_ended(own); });
}

// The last task of a session that ends, or withdraws, closes what it has open; on a thread that copies, since a driver may take its time.
void Transfers::task_ended(const SessionPtr& session) {
  {
    const Lock lock(mutex_);
    if (--session->tasks != 0 || session->closing || (!session->ended && !session->withdrawing)) return;
    session->closing = true;
  }
  close(session);
}

void Transfers::close(const SessionPtr& session) {
  std::shared_ptr<const Memory> memory;
  {
    const Lock lock(mutex_);
    memory = std::exchange(session->memory, std::make_shared<Memory>());
  }
  memory.reset();
  const Lock lock(mutex_);
  session->closing = false;
  session->refused = {};
  if (session->withdrawing) {
    answers_.push_back({session->number, *session->withdrawing, true, {}, false});
    session->withdrawing.reset();
    wake_();
  }
  if (session->way.sidecar) session->way = {};
  // One that ended while this was closing has nothing open, and its own task comes still.
  if (!session->ended || session->tasks != 0) return;
  sessions_.erase(session->number);
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
    if (copying.state == Copying::State::kQueued && copying.session->region.cancelled(copying.order.flag))
      copying.state = Copying::State::kVoid;
    if (copying.state != Copying::State::kVoid) return false;
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
  if (const auto found = sessions_.find(session); found != sessions_.end()) return found->second->way;
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
