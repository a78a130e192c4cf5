#include "sidecar/tiers/disk/uring_queue.h"

#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "shim/base/fd.h"
#include "sidecar/base/sizes.h"

namespace larder::disk {
namespace {

constexpr unsigned kEntries = 512;  // at most two entries for a request, and one for the wake-up
static_assert(2 * kMaxIoInFlight < kEntries);
// No request has this value: data is the index of a flight times two, plus the part.
constexpr std::uint64_t kWakeData = ~0ULL;
// The kernel registers at most 1 GiB as one buffer.
constexpr std::size_t kRegisteredBytes = 1ULL << 30;

class UringQueue final : public IoQueue {
 public:
  UringQueue() : flights_(kMaxIoInFlight) {
    for (std::size_t i = 0; i < flights_.size(); ++i) free_.push_back(i);
  }
  ~UringQueue() override {
    if (!ready_) return;
    std::vector<IoResult> results;
    // The kernel writes into slots until a request ends. Leaving earlier would hand memory of a
    // running write to the next owner.
    while (free_.size() < flights_.size()) wait(1'000'000'000, results);
    ::io_uring_queue_exit(&ring_);
  }

  Status open() {
    wake_fd_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_fd_.valid()) return Status::from_errno(errno, "eventfd");
    // One thread submits and waits, so the kernel may leave completions until the next wait of the
    // thread (Linux 6.1).
    int error = ::io_uring_queue_init(kEntries, &ring_,
                                      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (error == -EINVAL) error = ::io_uring_queue_init(kEntries, &ring_, 0);  // before Linux 6.1
    if (error < 0) return Status::from_errno(-error, "io_uring_queue_init");
    ready_ = true;
    // Without the feature a wait with a time-out takes an entry of the ring, and this class counts
    // no such entry.
    if ((ring_.features & IORING_FEAT_EXT_ARG) == 0)
      return {Code::kUnsupported, "io_uring of before Linux 5.11"};
    if (Status status = try_it(); !status.ok()) return status;
    watch_wake();
    return {};
  }

  Status register_arena(std::span<std::byte> arena) {
    std::vector<iovec> buffers;
    for (std::size_t at = 0; at < arena.size(); at += kRegisteredBytes)
      // Registration pins the pages once, instead of once for each request.
      buffers.push_back({arena.data() + at, std::min(kRegisteredBytes, arena.size() - at)});
    if (buffers.empty()) return {};
    const int error =
        ::io_uring_register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size()));
    if (error < 0)
      return Status::from_errno(-error,
                                "registering " + base::mib(arena.size()) + " with io_uring");
    registered_ = arena;
    return {};
  }

  void submit(const IoRequest& request) override {
    // Never empty: Device::has_room() allows fewer than kMaxIoInFlight requests.
    const std::size_t index = free_.back();
    free_.pop_back();
    Flight& flight = flights_[index];
    flight = {};
    flight.request = request;
    if (request.kind == IoRequest::Kind::kSync) {
      io_uring_sqe* entry = take_entry();
      ::io_uring_prep_fsync(entry, request.fd, IORING_FSYNC_DATASYNC);
      ::io_uring_sqe_set_data64(entry, index * 2);
      flight.pending = 1;
      return;
    }
    // A part in registered memory is a request of its own; else both parts are one vector.
    const bool fixed = std::ranges::any_of(
        request.parts, [this](std::span<std::byte> part) { return registered(part); });
    if (!fixed) {
      start_vector(index, request.offset);
      return;
    }
    for (std::size_t part = 0; part < request.parts.size(); ++part) {
      if (!request.parts[part].empty()) start_part(index, part, 0);
    }
  }

  void wait(std::uint64_t timeout_ns, std::vector<IoResult>& results) override {
    __kernel_timespec timeout{static_cast<long long>(timeout_ns / 1'000'000'000),
                              static_cast<long long>(timeout_ns % 1'000'000'000)};
    io_uring_cqe* first = nullptr;
    ::io_uring_submit_and_wait_timeout(&ring_, &first, 1, &timeout, nullptr);
    unsigned head = 0, seen = 0;
    io_uring_cqe* entry = nullptr;
    // Copied out before finish(): finish() submits continuations, for which the ring needs free
    // places.
    std::vector<std::pair<std::uint64_t, int>> done;
    io_uring_for_each_cqe(&ring_, head, entry) {
      done.emplace_back(entry->user_data, entry->res);
      ++seen;
    }
    ::io_uring_cq_advance(&ring_, seen);
    for (const auto& [data, result] : done) finish(data, result, results);
  }

  void wake() override {
    const std::uint64_t one = 1;
    // A full counter is no loss: the eventfd is readable already.
    [[maybe_unused]] const auto written = ::write(wake_fd_.get(), &one, sizeof(one));
  }
  const char* name() const override { return "io_uring"; }

 private:
  struct Flight {
    IoRequest request;
    std::array<std::size_t, 2> moved{};  // for each part; a vector counts in the first
    std::array<iovec, 2> vector{};
    bool vectored = false;
    int pending = 0;
    int error = 0;
  };

  // A seccomp profile may allow io_uring_setup and refuse io_uring_enter: a no-op request finds
  // out.
  Status try_it() {
    ::io_uring_prep_nop(take_entry());
    const int entered = ::io_uring_submit_and_wait(&ring_, 1);
    if (entered < 0) return Status::from_errno(-entered, "io_uring_enter");
    io_uring_cqe* done = nullptr;
    if (::io_uring_peek_cqe(&ring_, &done) != 0)
      return {Code::kInternal, "io_uring does not answer"};
    ::io_uring_cqe_seen(&ring_, done);
    return {};
  }

  io_uring_sqe* take_entry() {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    // The ring is full. The call hands the entries to the kernel and frees places.
    if (entry != nullptr) return entry;
    ::io_uring_submit(&ring_);
    return ::io_uring_get_sqe(&ring_);
  }

  void watch_wake() {
    io_uring_sqe* entry = take_entry();
    ::io_uring_prep_poll_add(entry, wake_fd_.get(), POLLIN);
    ::io_uring_sqe_set_data64(entry, kWakeData);
  }

  bool registered(std::span<std::byte> part) const {
    if (part.empty() || registered_.empty()) return false;
    if (part.data() < registered_.data() ||
        part.data() + part.size() > registered_.data() + registered_.size())
      return false;
    const auto at = static_cast<std::size_t>(part.data() - registered_.data());
    return at / kRegisteredBytes == (at + part.size() - 1) / kRegisteredBytes;
  }

  void start_vector(std::size_t index, std::uint64_t offset) {
    Flight& flight = flights_[index];
    unsigned count = 0;
    std::size_t skip = flight.moved[0];
    for (const std::span<std::byte> part : flight.request.parts) {
      const std::size_t gone = std::min(skip, part.size());
      skip -= gone;
      if (gone < part.size()) flight.vector[count++] = {part.data() + gone, part.size() - gone};
    }
    io_uring_sqe* entry = take_entry();
    if (flight.request.kind == IoRequest::Kind::kRead)
      ::io_uring_prep_readv(entry, flight.request.fd, flight.vector.data(), count, offset);
    else
      ::io_uring_prep_writev(entry, flight.request.fd, flight.vector.data(), count, offset);
    ::io_uring_sqe_set_data64(entry, index * 2);
    flight.vectored = true;
    flight.pending = 1;
  }

  void start_part(std::size_t index, std::size_t part, std::size_t moved) {
    Flight& flight = flights_[index];
    const std::span<std::byte> bytes = flight.request.parts[part].subspan(moved);
    const std::uint64_t offset =
        flight.request.offset + (part == 1 ? flight.request.parts[0].size() : 0) + moved;
    const auto size = static_cast<unsigned>(bytes.size());
    const bool fixed = registered(bytes);
    const int buffer =
        fixed ? static_cast<int>(static_cast<std::size_t>(bytes.data() - registered_.data()) /
                                 kRegisteredBytes)
              : 0;
    io_uring_sqe* entry = take_entry();
    if (flight.request.kind == IoRequest::Kind::kRead && fixed)
      ::io_uring_prep_read_fixed(entry, flight.request.fd, bytes.data(), size, offset, buffer);
    else if (flight.request.kind == IoRequest::Kind::kRead)
      ::io_uring_prep_read(entry, flight.request.fd, bytes.data(), size, offset);
    else if (fixed)
      ::io_uring_prep_write_fixed(entry, flight.request.fd, bytes.data(), size, offset, buffer);
    else
      ::io_uring_prep_write(entry, flight.request.fd, bytes.data(), size, offset);
    ::io_uring_sqe_set_data64(entry, index * 2 + part);
    ++flight.pending;
  }

  void finish(std::uint64_t data, int result, std::vector<IoResult>& results) {
    // The counter is read before the new poll, or the poll would report the same wake-up again.
    if (data == kWakeData) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = ::read(wake_fd_.get(), &count, sizeof(count));
      // A poll request reports once, so each wake-up needs a new one.
      watch_wake();
      return;
    }
    const std::size_t index = data / 2, part = data % 2;
    Flight& flight = flights_[index];
    --flight.pending;
    // A request in two parts ends with the second one. An error of either part is the error of the
    // request.
    if (!carry_on(index, part, result) && flight.pending == 0) {
      results.push_back({flight.request.tag, flight.error});
      free_.push_back(index);
    }
  }

  // Continues a part that stopped short or was interrupted. Returns whether it did.
  bool carry_on(std::size_t index, std::size_t part, int result) {
    Flight& flight = flights_[index];
    // A signal or a short memory may interrupt a request. IoQueue promises whole transfers or an
    // error.
    const bool again = result == -EINTR || result == -EAGAIN;
    if (flight.request.kind == IoRequest::Kind::kSync && result >= 0) return false;
    if (result < 0 && !again) flight.error = -result;
    if (result == 0) flight.error = EIO;
    if (flight.error != 0) return false;
    if (result > 0) flight.moved[part] += static_cast<std::size_t>(result);
    const std::size_t whole =
        flight.vectored ? flight.request.bytes() : flight.request.parts[part].size();
    if (flight.moved[part] >= whole && flight.request.kind != IoRequest::Kind::kSync) return false;
    if (flight.request.kind == IoRequest::Kind::kSync) {
      const IoRequest request = flight.request;
      free_.push_back(index);
      submit(request);
    } else if (flight.vectored) {
      start_vector(index, flight.request.offset + flight.moved[0]);
    } else {
      start_part(index, part, flight.moved[part]);
    }
    return true;
  }

  io_uring ring_{};
  bool ready_ = false;
  Fd wake_fd_;
  std::span<std::byte> registered_;
  std::vector<Flight> flights_;
  std::vector<std::size_t> free_;
};

}  // namespace

Result<OpenedUring> open_uring_queue(std::span<std::byte> arena) {
  auto queue = std::make_unique<UringQueue>();
  if (Status status = queue->open(); !status.ok()) return status;
  const Status registered = queue->register_arena(arena);
  return OpenedUring{std::move(queue), registered.ok() ? "" : registered.to_string()};
}

}  // namespace larder::disk
