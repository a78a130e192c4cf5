// Machine: the state that outlives larderd in the simulation: time, randomness, a disk, the arena,
// and the index of the newest life. And Model, which knows the chunks that may be found there.
//
// A broken rule throws Broken; sim_run.cc catches Broken and ends the run. Owned by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "shim/protocol/index_reader.h"
#include "sidecar/config/config.h"
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

// The index file of one life. Engines that mapped the index keep the mapping.
struct Index {
  explicit Index(const store::IndexShape& the_shape) : shape(the_shape), memory(shape.bytes()) {}
  void supersede() {
    if (Result<store::PreviousIndex> index =
            store::PreviousIndex::open(memory.data(), memory.size());
        index.ok())
      index->supersede();
  }
  store::IndexShape shape;
  Pages memory;
  protocol::IndexReader reader;
  std::vector<store::EarlierName> journal;  // of the namespaces opened in this life
};

// One session's region.
struct Region {
  protocol::SessionRegion& operator*() const {
    return *reinterpret_cast<protocol::SessionRegion*>(memory.data());
  }
  void hold(std::uint32_t place, std::uint32_t slot, std::uint64_t generation) const {
    if ((**this).holds_used.load() <= place) (**this).holds_used.store(place + 1);
    (**this).holds[place].exchange(protocol::make_hold(slot, generation));
  }
  void let_go(std::uint32_t place) const { (**this).holds[place].exchange(0); }
  Pages memory{sizeof(protocol::SessionRegion)};
};

// A server that several larderd share, and its faults.
struct SimServer {
  struct Chunk {
    tiers::ChunkFacts facts;
    std::vector<std::byte> bytes;
  };
  std::map<std::uint64_t, Chunk> chunks;  // by number
  std::uint64_t life = 1;                 // number of the life; each life begins empty
  bool away = false, flaky = false, slow = false;
};

struct Machine {
  static constexpr std::uint64_t kArenaBytes = 24 * 8192;  // room for a part of all chunks
  // above all generations of this machine's larderd
  static constexpr std::uint64_t kOthers = 1ULL << 60;

  // `shared`: there is a server beside the disk.
  Machine(std::uint64_t seed, bool shared) : random(seed) {
    config.write = one_in(2) ? config::DiskWrite::kThrough : config::DiskWrite::kBack;
    config.admit_after = one_in(4) ? 2 : 1;
    config.size_bytes = volume_options().size_bytes;
    crowded = one_in(16);
    if (!shared) return;
    server.emplace();
    backend.write = static_cast<config::BackendWrite>(below(3));
    backend.write_bytes_per_s = one_in(3) ? 20 * 8192 : 0;
  }

  Random random;
  config::DiskConfig config;
  config::BackendConfig backend;
  std::optional<SimServer> server;
  std::uint64_t others_generation = kOthers;  // the newest generation of another larderd
  SimClock clock;
  SimDisk disk;
  SimEnv env{clock, disk, random};
  Pages arena{kArenaBytes};
  // of all lives since the last power loss, the newest last
  std::vector<std::shared_ptr<Index>> indexes;
  SessionNumber next_session = 1;
  std::uint64_t newest_generation = 0;  // of all lives; a real larderd takes it from the clock
  bool disk_damaged = false, index_damaged = false;
  // another engine has most places of namespaces, until the machine comes to rest
  bool crowded = false;
  bool patient = false;                     // deadlines of the disk are not shortened
  std::vector<std::uint64_t> arena_damage;  // offsets

  std::uint64_t below(std::uint64_t limit) { return sim::below(random, limit); }
  bool one_in(std::uint64_t count) { return sim::one_in(random, count); }
  bool damaged(std::uint64_t offset, std::uint64_t bytes) const {
    for (const std::uint64_t at : arena_damage)
      if (at >= offset && at < offset + bytes) return true;
    return false;
  }
};

// The generation under which an engine stored a chunk names the content. A copy that came up from
// the disk has a generation of its own and the same content, and may be written down under its own
// generation.
class Model {
 public:
  void committed(std::uint64_t number, std::uint64_t generation) {
    contents_[{number, generation}] = generation;
  }
  bool knows(std::uint64_t number, std::uint64_t generation) const {
    return contents_.contains({number, generation});
  }
  // A chunk was found in memory. Returns its content.
  std::uint64_t found(std::uint64_t number, std::uint64_t generation) const {
    const auto content = contents_.find({number, generation});
    must(content != contents_.end(), name(number) + " is visible and was never committed");
    must(generation > memory_floor_[space_of(number)],
         name(number) + " is in memory and was dropped");
    return content->second;
  }
  // A chunk is given to the disk tier.
  void goes_down(std::uint64_t number, std::uint64_t generation) const {
    must(knows(number, generation), name(number) + " goes down and was never committed");
    must(generation > memory_floor_[space_of(number)], name(number) + " goes down and was dropped");
  }
  // The disk tier has returned the chunk of this generation.
  void tier_gave(std::uint64_t number, std::uint64_t generation) const {
    must(knows(number, generation), name(number) + " came from the disk and was never committed");
    must(generation > disk_floor_[space_of(number)],
         name(number) + " came from the disk, which had taken its drop");
  }
  // The chunk is visible in memory, under a new generation.
  void came_up(std::uint64_t number, std::uint64_t generation, std::uint64_t below) {
    must(below > visible_floor_[space_of(number)], name(number) + " came up and was dropped");
    contents_[{number, generation}] = contents_.at({number, below});
  }
  // The backend has returned the chunk of generation `below`, and the chunk is visible in memory.
  // After a drop another larderd may have put the chunk there again, in another generation.
  void came_up_from_backend(std::uint64_t number, std::uint64_t generation, std::uint64_t below) {
    const bool others = below >= Machine::kOthers;
    must(others ? !others_dropped_.contains({number, below})
                : below > backend_floor_[space_of(number)],
         name(number) + " came up from the backend and was dropped");
    contents_[{number, generation}] = contents_.at({number, below});
  }
  std::uint64_t content_of(std::uint64_t number, std::uint64_t generation) const {
    return contents_.at({number, generation});
  }
  void dropped_of_others(std::uint64_t number, std::uint64_t generation) {
    others_dropped_.insert({number, generation});
  }
  void backend_has_dropped(std::uint64_t space, std::uint64_t generation) {
    backend_safe_floor_[space] = std::max(backend_safe_floor_[space], generation);
  }
  // A drop of all chunks up to this generation. The drop holds in memory at once, in the tier once
  // the tier has taken the drop, and in all later lives once the tier has confirmed the drop.
  void dropped(std::uint64_t space, std::uint64_t generation) {
    memory_floor_[space] = visible_floor_[space] = backend_floor_[space] = generation;
  }
  std::uint64_t newest_dropped(std::uint64_t space) const { return memory_floor_[space]; }
  void disk_took_drop(std::uint64_t space) { disk_floor_[space] = memory_floor_[space]; }
  void drop_is_safe(std::uint64_t space, std::uint64_t generation) {
    safe_floor_[space] = std::max(safe_floor_[space], generation);
  }
  void larderd_ended() {
    for (std::uint64_t space = 0; space < kSpaces; ++space) {
      disk_floor_[space] = visible_floor_[space] = safe_floor_[space];
      backend_floor_[space] = backend_safe_floor_[space];
    }
    others_dropped_.clear();
  }

 private:
  static std::string name(std::uint64_t number) { return "chunk " + std::to_string(number); }

  // by number and generation
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> contents_;
  std::uint64_t memory_floor_[kSpaces] = {}, visible_floor_[kSpaces] = {},
                disk_floor_[kSpaces] = {}, safe_floor_[kSpaces] = {};
  std::uint64_t backend_floor_[kSpaces] = {}, backend_safe_floor_[kSpaces] = {};
  std::set<std::pair<std::uint64_t, std::uint64_t>> others_dropped_;  // in this life
};

}  // namespace larder::sim
