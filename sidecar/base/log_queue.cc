#include "sidecar/base/log_queue.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace larder::base {
namespace {

constexpr int kLookMs = 1000;  // between checks of `over`, for a descriptor with O_NONBLOCK

// A gap is stored with the entry behind the gap. The line with the count therefore appears at the
// place of the missing lines, and costs no memory while the queue is full.
struct Entry {
  std::string text;
  std::uint64_t missing_before = 0;  // lines dropped between the entry before and this one

  std::size_t bytes() const { return text.size() + sizeof(Entry); }
};

}  // namespace

// Shared with a detached thread. A join would hang at the end of the process if standard error is a
// full pipe.
struct LogQueue::Shared {
  Shared(int to, CountLine line, std::size_t most)
      : fd(to), count_line(std::move(line)), most_bytes(most) {}

  const int fd;
  const CountLine count_line;
  const std::size_t most_bytes;
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<bool> over{false};
  std::mutex mutex;
  std::condition_variable added, written;
  std::deque<Entry> waiting;
  std::size_t waiting_bytes = 0;
  std::uint64_t missing = 0;  // dropped behind the last of `waiting`
  bool writing = false;

  bool empty() const { return waiting.empty() && missing == 0; }
  Entry take();

  // Used by the thread alone.
  bool write(std::string_view text);
  void write(const Entry& entry);
  std::uint64_t owed = 0;  // missing lines that no written line has reported yet
  bool torn = false;       // the last line was written in part
};

// Without a waiting line, `missing` alone becomes an entry without text. Otherwise the count would
// wait for the next line, perhaps for hours.
Entry LogQueue::Shared::take() {
  if (waiting.empty()) return {"", std::exchange(missing, 0)};
  Entry entry = std::move(waiting.front());
  waiting.pop_front();
  waiting_bytes -= entry.bytes();
  return entry;
}

bool LogQueue::Shared::write(std::string_view text) {
  bool begun = false;
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put > 0) {
      text.remove_prefix(static_cast<std::size_t>(put));
      begun = true;
    } else if (put < 0 && errno == EAGAIN && !over) {
      // Another process that shares the open file has set O_NONBLOCK. The thread waits for room,
      // and looks at `over` every kLookMs.
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, kLookMs);
    } else if (put == 0 || errno != EINTR) {
      // The next line then begins with a line end. Otherwise two records would merge into one
      // broken record.
      torn = torn || begun;
      return false;
    }
  }
  torn = false;
  return true;
}

// The count goes first: if the count cannot be written, neither can the entry, and both stay owed.
// `owed` survives failed attempts, so the reported counts add up to `dropped`.
void LogQueue::Shared::write(const Entry& entry) {
  owed += entry.missing_before;
  const char* const end_of_torn = torn ? "\n" : "";
  const bool writes = owed == 0 || write(end_of_torn + count_line(owed));
  if (writes) owed = 0;
  if (entry.text.empty()) return;
  if (writes && write((torn ? "\n" : "") + entry.text)) return;
  ++owed;
  ++dropped;
}

LogQueue::LogQueue(int fd, CountLine count_line, std::size_t most_bytes)
    : shared_(std::make_shared<Shared>(fd, std::move(count_line), most_bytes)) {
  // The thread blocks all signals: other threads wait for them, and a blocked SIGPIPE or SIGXFSZ
  // turns into an error of write().
  sigset_t all, before;
  // Set before the thread starts and inherited by the thread: no signal can arrive in between.
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([shared = shared_] { write_all(shared); }).detach();
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogQueue::~LogQueue() {
  const std::lock_guard lock(shared_->mutex);
  shared_->over = true;
  shared_->added.notify_all();
}

void LogQueue::write_all(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->added.wait(lock, [&] { return shared->over || !shared->empty(); });
    if (shared->over) return;
    // The lock is free during write(): a blocked writer must not block add(), which the event loop
    // calls.
    const Entry entry = shared->take();
    shared->writing = true;
    lock.unlock();
    shared->write(entry);
    lock.lock();
    shared->writing = false;
    if (shared->empty()) shared->written.notify_all();
  }
}

void LogQueue::add(std::string line) {
  Entry entry{std::move(line), 0};
  const std::lock_guard lock(shared_->mutex);
  // Drops the new line: the queued lines keep their order, and all missing lines have one place.
  // Waiting here would stop the event loop.
  if (shared_->waiting_bytes + entry.bytes() > shared_->most_bytes) {
    ++shared_->missing;
    ++shared_->dropped;
    return;
  }
  entry.missing_before = std::exchange(shared_->missing, 0);
  shared_->waiting_bytes += entry.bytes();
  shared_->waiting.push_back(std::move(entry));
  shared_->added.notify_one();
}

bool LogQueue::flush(std::chrono::milliseconds most) {
  std::unique_lock lock(shared_->mutex);
  // An empty queue is not enough: the last entry may be in write() at this moment.
  return shared_->written.wait_for(lock, most,
                                   [this] { return shared_->empty() && !shared_->writing; });
}

std::uint64_t LogQueue::dropped() const {
  return shared_->dropped;
}

}  // namespace larder::base
