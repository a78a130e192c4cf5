#include "tests/sim/sim_env.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

namespace larder::sim {

using disk::IoRequest;
using disk::IoResult;

class SimQueue final : public disk::IoQueue {
 public:
  explicit SimQueue(SimEnv& env) : env_(env) { env.queue_ = this; }
  ~SimQueue() override {
    // like a queue that waits for requests in flight, without messages
    for (auto& [due, flight] : flights_) end(flight);
    env_.queue_ = nullptr;
  }

  void submit(const IoRequest& request) override {
    Flight flight{request, 0, 0, 0, {}};
    const bool reads = request.kind == IoRequest::Kind::kRead;
    if (request.kind == IoRequest::Kind::kSync) flight.began = env_.disk_.begin_sync();
    if (request.kind == IoRequest::Kind::kWrite)
      flight.began = env_.disk_.begin(request.offset, gathered(request));
    // on_begin may have just set the fault
    flight.error = reads ? env_.faults.read_error : env_.faults.write_error;
    // From now on the device may write to the memory of a read at any time.
    if (reads) {
      for (const std::span<std::byte> part : request.parts)
        std::fill(part.begin(), part.end(), std::byte{0xdb});
      flight.first_part = first_part_now(request);
    }
    flight.due_ns = env_.clock_.now_ns() +
                    1000 * (20 + below(env_.random_, one_in(env_.random_, 8) ? 30'000 : 2000));
    if (flights_.size() >= disk::kMaxIoInFlight)
      broken("more requests in flight than the queue takes");
    flights_.emplace(std::pair(flight.due_ns, request.tag), flight);
  }

  void wait(std::uint64_t timeout_ns, std::vector<IoResult>& results) override {
    const std::uint64_t now = env_.clock_.now_ns();
    if (timeout_ns != 0) {
      const bool comes = !env_.faults.stalled && !flights_.empty();
      env_.clock_.advance_to(comes ? std::min(now + timeout_ns, flights_.begin()->first.first)
                                   : now + timeout_ns);
    }
    while (!env_.faults.stalled && !flights_.empty() &&
           flights_.begin()->first.first <= env_.clock_.now_ns()) {
      Flight flight = flights_.begin()->second;
      flights_.erase(flights_.begin());
      const int error = end(flight);
      results.push_back({flight.request.tag, error});
    }
  }
  void wake() override {}
  const char* name() const override { return "simulated"; }

  void kill() {
    Random& random = env_.random_;
    for (auto& [due, flight] : flights_) {
      const std::uint64_t how = below(random, 3);
      if (flight.request.kind == IoRequest::Kind::kWrite && how == 1) {
        env_.disk_.land_torn(flight.began, random);
      } else if (how == 0) {
        end(flight);
      } else if (flight.request.kind == IoRequest::Kind::kWrite) {
        env_.disk_.forget(flight.began);
      }
    }
    flights_.clear();
  }

 private:
  struct Flight {
    IoRequest request;
    std::uint64_t due_ns;
    std::uint64_t began;  // of a sync: the number from begin_sync(); of a write: its number
    int error;
    // of a read with several parts: the first part as at the begin, the others are read at the end
    SimDisk::Bytes first_part;
  };

  SimDisk::Bytes first_part_now(const IoRequest& request) const {
    SimDisk::Bytes bytes;
    if (request.parts[1].empty() || request.offset + request.bytes() > env_.disk_.size())
      return bytes;
    bytes.resize(request.parts[0].size());
    env_.disk_.read(request.offset, bytes);
    return bytes;
  }

  static SimDisk::Bytes gathered(const IoRequest& request) {
    SimDisk::Bytes bytes;
    bytes.reserve(request.bytes());
    for (const std::span<std::byte> part : request.parts)
      bytes.insert(bytes.end(), part.begin(), part.end());
    return bytes;
  }
  void broken(const std::string& rule) {
    if (env_.broken_rule_.empty()) env_.broken_rule_ = rule;
  }

  // Returns an errno.
  int end(const Flight& flight) {
    const IoRequest& request = flight.request;
    const std::uint64_t size = env_.disk_.size();
    const bool inside = request.offset + request.bytes() <= size;
    switch (request.kind) {
      case IoRequest::Kind::kSync:
        if (flight.error == 0) env_.disk_.end_sync(flight.began);
        return flight.error;
      case IoRequest::Kind::kWrite:
        if (gathered(request) != env_.disk_.in_flight(flight.began))
          broken("memory changed while the device read it");
        if (!inside) broken("a write beyond the size of the file");
        if (flight.error == 0) {
          env_.disk_.land(flight.began);
        } else if (one_in(env_.random_, 3)) {
          env_.disk_.forget(flight.began);
        } else {
          env_.disk_.land_torn(flight.began, env_.random_);
        }
        return flight.error;
      case IoRequest::Kind::kRead: break;
    }
    if (flight.error != 0) return flight.error;
    if (!inside) return EIO;
    std::uint64_t at = request.offset;
    for (const std::span<std::byte> part : request.parts) {
      env_.disk_.read(at, part);
      at += part.size();
    }
    std::ranges::copy(flight.first_part, request.parts[0].begin());
    return 0;
  }

  SimEnv& env_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Flight> flights_;  // by due time and tag
};

void SimEnv::kill() {
  if (queue_ != nullptr) queue_->kill();
}

Result<disk::FileFacts> SimEnv::facts(const std::string& path) const {
  const bool file = path.ends_with("/chunks");
  if (faults.away || (file && !made_)) return Status::from_errno(ENOENT, path);
  return disk::FileFacts{1, file ? 3U : 2U, file ? disk_.size() : 0, 0700, ::geteuid(), !file};
}

Status SimEnv::make_directory(const std::string& path, std::uint32_t) {
  return faults.away ? Status::from_errno(ENOENT, path) : Status();
}

Result<Fd> SimEnv::open(const std::string& path, int, std::uint32_t) {
  if (faults.away) return Status::from_errno(ENOENT, path);
  made_ = made_ || path.ends_with("/chunks");
  Fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));  // only the owner's name goes through this file
  if (!file.valid()) return Status::from_errno(errno, "/dev/null");
  return file;
}

Status SimEnv::reserve(const Fd&, std::uint64_t bytes) {
  if (faults.write_error != 0 && bytes > disk_.size())
    return Status::from_errno(faults.write_error, "fallocate");
  disk_.resize(bytes);
  return {};
}

disk::OpenedQueue SimEnv::open_queue(const disk::IoMemory&) {
  return {std::make_unique<SimQueue>(*this), ""};
}

}  // namespace larder::sim
