// Transfers: the copies that larderd makes itself, in KV memory that engines have exported
// (transfer: sidecar).
//
// The event loop asks and takes answers. Threads of this class open memory, copy, and close memory
// again: the thread of the loop never calls CUDA. Memory is opened once, at its EXPORT and never
// for a request, and closed after WITHDRAW or the end of the session, behind the last copy. The
// allocations of a session are opened in the order of the EXPORTs, and pieces are numbered in that
// order. A running copy goes on to its end, whoever dies meanwhile: until then its session is
// busy(), and its engine may not release() the slot. larderd launches no kernel, because kernels of
// two processes take turns on a GPU: copies use the copy engines of the device, and digests are
// computed on the host.
//
// The thread of the loop calls every function that is not marked thread-safe.
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

// The process that copies for a session, and the reason if larderd does not.
struct Way {
  bool sidecar = false;
  copy::TransferRefusal refusal;  // if larderd was asked to copy, or should have been, and does not
};

// Total counts, and the number of open allocations.
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

// One COPY, checked by the loop: the slot fits the verb, and the payload is as large as all pieces.
struct CopyOrder {
  protocol::CopyVerb verb = protocol::CopyVerb::kStore;
  std::uint32_t flag = 0;
  std::uint64_t generation = 0;    // of the grant that a store fills; unique
  std::uint64_t offset_bytes = 0;  // of the slot, in the arena
  std::uint64_t piece_bytes = 0;
  std::uint64_t root = 0;  // of a load
  // Protocol::make_piece(); empty: the chunk is gone, only end the flag.
  std::vector<std::uint64_t> pieces;
};

class Transfers {
 public:
  static constexpr unsigned kThreads = 2;
  // The bound of tasks of one session. A task counts until its thread has released it, a moment
  // after its flag may be asked for again: hence one more for each thread.
  static constexpr std::uint32_t kMaxTasks = protocol::kMaxCopies + kThreads;

  // `wake`: called on any thread when answers wait. `arena`, and `arena_file` of which it is a
  // mapping (or -1), outlive this object. Throws std::system_error if no thread can start.
  Transfers(std::unique_ptr<copy::MemoryImporter> importer, std::span<std::byte> arena,
            std::function<void()> wake, int arena_file = -1);
  // Finishes running tasks, and drops waiting tasks.
  ~Transfers();

  // An EXPORT. The answer follows later, even for a refusal, in the order of the EXPORTs of the
  // session. After a refusal all further EXPORTs are refused until WITHDRAW. kResourceExhausted:
  // over a bound; a fault of the session.
  Status open(std::uint32_t session, std::uint32_t request, std::uint32_t process_number,
              const copy::DeviceId& device, std::vector<copy::MemoryHandle> handles);
  // The engine reports why it copies by itself.
  void declined(std::uint32_t session, copy::TransferRefusal why);
  // A WITHDRAW. The answer follows once all memory of the session is closed. kFailedPrecondition:
  // without an EXPORT, or during another WITHDRAW.
  Status withdraw(std::uint32_t session, std::uint32_t request);
  // An error is a fault of the session. The flag reports every other failure. REQUIRES: the slot is
  // inside of the arena.
  Status copy(std::uint32_t session, CopyOrder order);
  void end_session(std::uint32_t session);

  // Thread-safe. Whether the session has a copy or open memory.
  bool busy(std::uint32_t session) const;
  // Thread-safe. The engine commits or disowns the grant of this generation. True: no copy writes
  // the slot, now or later. A waiting copy whose flag the engine took back is void from here on,
  // whatever the engine writes into the flag afterwards. False: a copy runs or may still begin.
  bool release(std::uint64_t generation);
  std::vector<Answer> take_answers();
  // Whether an ended session became free of copies and memory since the last call. `wake` was
  // called for it.
  bool take_freed();
  // The descriptor of the transfer region of the session; -1 without a region.
  int region_fd(std::uint32_t session) const;
  Way way(std::uint32_t session) const;
  Counts counts() const;
  // The first `bytes` of the arena are present, and may be registered with devices.
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
  copy::TransferRefusal open_all(const SessionPtr& session, const copy::DeviceId& id,
                                 std::vector<copy::MemoryHandle>& handles);
  copy::TransferRefusal make_device(const copy::DeviceId& id, const copy::ImportedMemory& memory,
                                    std::shared_ptr<Device>& made);
  void run_copy(const std::shared_ptr<Copying>& copying);
  void forget_writing(const std::shared_ptr<Copying>& copying);
  Result<std::uint64_t> move(const CopyOrder& order, const Memory& memory,
                             const copy::CopyEngine& engine) const;
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
  // By session, without open memory.
  std::unordered_map<std::uint32_t, copy::TransferRefusal> declined_;
  // Stores, queued or running, by generation.
  std::unordered_multimap<std::uint64_t, std::shared_ptr<Copying>> writing_;
  std::vector<Answer> answers_;
  Counts counts_;
  std::atomic<std::uint64_t> open_{0};  // allocations
  bool freed_ = false;
  std::uint64_t present_ = 0;
  std::map<copy::DeviceId, std::shared_ptr<Device>> devices_;
  std::mutex making_;  // held while a device is made, so that each is made once
  std::vector<std::thread> threads_;
};

}  // namespace larder::transfer
