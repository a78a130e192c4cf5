// Transfers: the copies that larderd makes itself, in KV memory that engines have exported to it (transfer: sidecar).
//
// The event loop asks and takes answers; a few threads of its own open memory, copy and close it again. Memory is opened once, when it is exported, and
// closed when its session ends or withdraws it, behind the last copy. A copy that has begun goes on to its end, whoever dies meanwhile: until then its
// session is busy() and a slot that it writes is not its engine's to release(). The loop's thread calls everything but what is said to be thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cuda/memory_import.h"
#include "sidecar/transfer/transfer_region.h"

namespace larder::transfer {

// Who copies for a session, and why not the other.
struct Way {
  bool sidecar = false;
  copy::TransferRefusal refusal;  // where larderd does not, and was asked or should have been
};

// What is counted, ever; and how many allocations are open by now.
struct Counts {
  std::uint64_t stores = 0, loads = 0, failed = 0, bytes = 0, opened = 0, open = 0;
};

struct Answer {
  std::uint32_t session = 0;
  std::uint32_t request = 0;
  bool withdrawn = false;  // WITHDRAWN; else EXPORTED
  copy::TransferRefusal refusal;
  bool with_region = false;
};

// One COPY, looked at by the loop: the slot is what the verb needs, and its payload as large as the pieces together.
struct CopyOrder {
  protocol::CopyVerb verb = protocol::CopyVerb::kStore;
  std::uint32_t flag = 0;
  std::uint64_t generation = 0;    // of the grant that a store fills: no two have the same
  std::uint64_t offset_bytes = 0;  // of the slot, in the arena
  std::uint64_t piece_bytes = 0;
  std::uint64_t root = 0;             // of a load
  std::vector<std::uint64_t> pieces;  // protocol::make_piece(); none: the chunk is gone, and only the flag is to be ended
};

class Transfers {
 public:
  static constexpr unsigned kThreads = 2;
  // Of one session at once. What a thread has answered for counts until the thread has let go of it, and its flag may be asked for again by then.
  static constexpr std::uint32_t kMaxTasks = protocol::kMaxCopies + kThreads;

  // `wake` is called when there are answers, on any thread. `arena` and `arena_file`, of which it is a mapping (or -1), outlive it. Throws std::system_error where no
  // thread can be made.
  Transfers(std::unique_ptr<copy::MemoryImporter> importer, std::span<std::byte> arena, std::function<void()> wake,
            int arena_file = -1);
  // Ends what has begun, and nothing else.
  ~Transfers();

  // An EXPORT. Answered later, also where it is refused; those of a session one after the other, as they came. Behind one that was refused all are,
  // until it withdraws. kResourceExhausted: over a bound; the session is at fault.
  Status open(std::uint32_t session, std::uint32_t request, std::uint32_t process_number, const copy::DeviceId& device,
              std::vector<copy::MemoryHandle> handles);
  // The engine says why it copies by itself.
  void declined(std::uint32_t session, copy::TransferRefusal why);
  // Answered when nothing of it is open any more. kFailedPrecondition: one is under way.
  Status withdraw(std::uint32_t session, std::uint32_t request);
  // A failure is the session's fault; what else fails is told by the flag. REQUIRES: the slot lies in the arena.
  Status copy(std::uint32_t session, CopyOrder order);
  void end_session(std::uint32_t session);

  // Thread-safe. Whether something is copied for it, or open.
  bool busy(std::uint32_t session) const;
  // Thread-safe. Its engine commits or gives up the slot that was granted at this generation. True: no copy writes there, nor will: those that waited, and
  // whose flags say by now that the engine took them back, are void from here on. False: one has not ended that was begun, or may still begin; the slot is
  // not the engine's.
  bool release(std::uint64_t generation);
  std::vector<Answer> take_answers();
  // Whether since the last time a session that had ended has become free of copies and of memory. `wake` was called for it.
  bool take_freed();
  // The descriptor of the session's transfer region; -1: it has none.
  int region_fd(std::uint32_t session) const;
  Way way(std::uint32_t session) const;
  Counts counts() const;
  // So much of the arena may be registered with devices.
  void present(std::uint64_t bytes);

 private:
  struct Session;
  struct Device;
  struct Exporting;
  struct Copying;
  using SessionPtr = std::shared_ptr<Session>;
  using Memory = std::vector<std::shared_ptr<copy::ImportedMemory>>;
  using Lock = std::unique_lock<std::mutex>;

  void work();
  void prepare();
  void add(std::function<void()> task);
  void open_in_turn(const SessionPtr& session);
  void run_open(const SessionPtr& session, Exporting exporting);
  copy::TransferRefusal open_or_say_why(const SessionPtr& session, Exporting& exporting);
  copy::TransferRefusal open_all(const SessionPtr& session, const copy::DeviceId& id, std::vector<copy::MemoryHandle>& handles);
  copy::TransferRefusal make_device(const copy::DeviceId& id, const copy::ImportedMemory& memory, std::shared_ptr<Device>& made);
  void run_copy(const std::shared_ptr<Copying>& copying);
  void forget_writing(const std::shared_ptr<Copying>& copying);
  Result<std::uint64_t> move(const CopyOrder& order, const Memory& memory, const copy::CopyEngine& engine) const;
  void close(const SessionPtr& session);
  void task_ended(const SessionPtr& session);

  const std::unique_ptr<copy::MemoryImporter> importer_;
  const std::span<std::byte> arena_;
  const int arena_file_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::deque<std::function<void()>> queue_;
  std::unordered_map<std::uint32_t, SessionPtr> sessions_;
  std::unordered_map<std::uint32_t, copy::TransferRefusal> declined_;         // by sessions that have nothing open
  std::unordered_multimap<std::uint64_t, std::shared_ptr<Copying>> writing_;  // those that store, queued or begun, by generation
  std::vector<Answer> answers_;
  Counts counts_;
  std::atomic<std::uint64_t> open_{0};  // allocations
  bool freed_ = false;
  std::uint64_t present_ = 0;
  std::map<copy::DeviceId, std::shared_ptr<Device>> devices_;
  std::mutex making_;  // of a device: one is made once
  std::vector<std::thread> threads_;
};

}  // namespace larder::transfer
