// The arms of bench-remote: each stores chunks on one server and loads them again, and reports the
// cost.
//
// Thread-compatible.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sidecar/tiers/remote/format.h"
#include "sidecar/tiers/tier.h"

namespace larder::bench {

// The cost of a turn: wall clock, processor time of the client and of the server, and pages that
// the kernel gave the server.
struct Cost {
  double seconds = 0, client_cpu = 0, server_cpu = 0;
  std::uint64_t server_faults = 0;
};

// Sums the parts between start() and stop(); there may be many parts.
class Stopwatch {
 public:
  explicit Stopwatch(pid_t server);
  void start();
  void stop();
  const Cost& cost() const { return cost_; }

 private:
  Cost now() const;
  const pid_t pid_;
  clockid_t server_;
  Cost from_, cost_;
};

// The chunks of one size: the stored bytes, and the memory for loaded bytes, shared like an arena.
class Chunks {
 public:
  static constexpr std::uint64_t kPiece = 128 << 10;
  // `count` chunks with different bytes.
  Chunks(std::uint64_t payload, std::size_t count);
  ~Chunks();
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;

  std::uint64_t payload() const { return payload_; }
  std::size_t count() const { return facts_.size(); }
  const tiers::ChunkFacts& facts(std::size_t i) const { return facts_[i]; }
  std::span<std::byte> source(std::size_t i) const { return {memory_ + i * slot_, slot_}; }
  std::span<std::byte> target(std::size_t i) const {
    return {memory_ + (count() + i) * slot_, slot_};
  }
  // The chunk in the tier's form, under this name.
  remote::Record record(std::size_t i, std::uint64_t name) const;

 private:
  const std::uint64_t payload_;
  const std::size_t slot_;
  std::vector<tiers::ChunkFacts> facts_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

class RemoteArm {
 public:
  explicit RemoteArm(std::string name) : name_(std::move(name)) {}
  virtual ~RemoteArm() = default;
  const std::string& name() const { return name_; }
  // A description of the values on the server for a chunk of this size.
  virtual std::string values(std::uint64_t payload) const { return std::to_string(payload); }
  // Stores chunk i under the new name `first + i`.
  virtual Cost set(const Chunks& chunks, std::uint64_t first) = 0;
  // Loads the chunks of set(). The bytes are checked outside the timing; wrong bytes end the
  // program.
  virtual Cost get(const Chunks& chunks, std::uint64_t first) = 0;

 private:
  const std::string name_;
};

// The server of all arms.
struct Place {
  std::uint16_t port = 0;
  pid_t pid = 0;
};

std::unique_ptr<RemoteArm> larder_arm(const Place& place);
// One connection with at most `window` requested bytes. Received bytes are dropped, and the same
// bytes are sent again and again.
std::unique_ptr<RemoteArm> ceiling_arm(const Place& place, std::uint64_t window);
std::unique_ptr<RemoteArm> hiredis_arm(const Place& place);
std::unique_ptr<RemoteArm> redis_benchmark_arm(const Place& place);
// `program`: a Python with redis-py and LMCache, and the path of remote_rivals.py. One process for
// all of its arms.
std::vector<std::unique_ptr<RemoteArm>> python_arms(const Place& place,
                                                    const std::vector<std::string>& program);

// Ends the program with a line if the condition is false.
void must(bool held, const std::string& what);

}  // namespace larder::bench
