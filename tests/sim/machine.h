// Machine: what outlives larderd in the simulation: time, chance, a disk, the arena and the index of the newest life; and Model, which
// knows what may be found in them.
//
// A rule that does not hold throws Broken, which run.h catches: the run ends there. Owned by one thread.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "shim/protocol/index_reader.h"
#include "sidecar/store/store.h"
#include "tests/sim/sim_chunks.h"
#include "tests/sim/sim_env.h"

namespace larder::sim {

using store::SessionNumber;

struct Broken : std::runtime_error {
  using runtime_error::runtime_error;
};
inline void must(bool held, const std::string& rule) {
  if (!held) throw Broken(rule);
}

class Pages {
 public:
  explicit Pages(std::size_t bytes) : size_((bytes + 4095) / 4096 * 4096) {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, size_)));
    std::memset(memory_.get(), 0, size_);
  }
  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
};

// The index file of one life. Engines that mapped it keep it.
struct Index {
  explicit Index(const store::IndexShape& the_shape) : shape(the_shape), memory(shape.bytes()) {}
  void supersede() {
    if (Result<store::EarlierIndex> index = store::EarlierIndex::open(memory.data(), memory.size()); index.ok())
      index->supersede();
  }
  store::IndexShape shape;
  Pages memory;
  protocol::IndexReader reader;
  std::uint32_t handles[kSpaces] = {};
};

// One session's region.
struct Region {
  protocol::SessionRegion& operator*() const { return *reinterpret_cast<protocol::SessionRegion*>(memory.data()); }
  void hold(std::uint32_t place, std::uint32_t slot, std::uint64_t generation) const {
    if ((**this).holds_used.load() <= place) (**this).holds_used.store(place + 1);
    (**this).holds[place].exchange(protocol::make_hold(slot, generation));
  }
  void let_go(std::uint32_t place) const { (**this).holds[place].exchange(0); }
  Pages memory{sizeof(protocol::SessionRegion)};
};

struct Machine {
  static constexpr std::uint64_t kArenaBytes = 48 * 8192;

  explicit Machine(std::uint64_t seed) : random(seed) {}

  Random random;
  SimClock clock;
  SimDisk disk;
  SimEnv env{clock, disk, random};
  Pages arena{kArenaBytes};
  std::vector<std::shared_ptr<Index>> indexes;  // of all lives since the last power loss; the last is the newest
  SessionNumber next_session = 1;
  std::uint64_t newest_generation = 0;  // of all lives: what the clock stands for
  bool disk_damaged = false, index_damaged = false;
  bool patient = false;                     // larderd gives the disk all the time in the world
  std::vector<std::uint64_t> arena_damage;  // offsets

  std::uint64_t below(std::uint64_t limit) { return sim::below(random, limit); }
  bool one_in(std::uint64_t count) { return sim::one_in(random, count); }
  bool damaged(std::uint64_t offset, std::uint64_t bytes) const {
    for (const std::uint64_t at : arena_damage)
      if (at >= offset && at < offset + bytes) return true;
    return false;
  }
};

// A chunk's content is named by the generation under which an engine stored it; a copy that came up from the disk has a generation of its
// own and the same content.
class Model {
 public:
  void committed(std::uint64_t number, std::uint64_t generation, std::uint64_t content) {
    contents_[{number, generation}] = content;
  }
  // Somebody finds a chunk in memory. Returns its content.
  std::uint64_t found(std::uint64_t number, std::uint64_t generation) const {
    const auto content = contents_.find({number, generation});
    must(content != contents_.end(), "chunk " + std::to_string(number) + " is visible and was never committed");
    must(generation > memory_floor_[space_of(number)], "chunk " + std::to_string(number) + " is in memory and was dropped");
    return content->second;
  }
  // The disk tier has given a chunk of that generation.
  void came_up(std::uint64_t number, std::uint64_t content) const {
    must(contents_.contains({number, content}), "chunk " + std::to_string(number) + " came up and was never committed");
    must(content > disk_floor_[space_of(number)], "chunk " + std::to_string(number) + " came up and was dropped");
  }
  // Everything up to a generation is dropped; by the disk in this life, and in all once it has said so.
  void dropped(std::uint64_t space, std::uint64_t generation) { memory_floor_[space] = disk_floor_[space] = generation; }
  void drop_is_safe(std::uint64_t space, std::uint64_t generation) {
    safe_floor_[space] = std::max(safe_floor_[space], generation);
  }
  void larderd_ended() {
    for (std::uint64_t space = 0; space < kSpaces; ++space) disk_floor_[space] = safe_floor_[space];
  }

 private:
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> contents_;  // by number and generation
  std::uint64_t memory_floor_[kSpaces] = {}, disk_floor_[kSpaces] = {}, safe_floor_[kSpaces] = {};
};

}  // namespace larder::sim
