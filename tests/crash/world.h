// World: one larderd in a process of its own, seen from outside: what the dead left in it.
//
// Used by one thread of a test that has no other, since it forks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "shim/protocol/index_layout.h"
#include "tests/component/larderd_process.h"

namespace larder::crash {

// Whether CRASH_SUITE=whole: `make test-crash`. Else small.
bool whole();

// A directory for larderd's disk tier, gone with this.
class DiskFolder {
 public:
  DiskFolder();
  ~DiskFolder();
  DiskFolder(const DiskFolder&) = delete;
  const std::string& path() const { return path_; }
  // Lines of the configuration file: `write` as there.
  std::string lines(std::uint64_t size_mib, const std::string& write) const;
  // On the device, whatever is in it.
  std::uint64_t taken_bytes() const;

 private:
  std::string path_;
};

class World {
 public:
  // `size` as in the configuration file, `more` further lines of it.
  explicit World(const std::string& size, const std::string& program = LARDERD_PATH, const std::string& more = "");

  test::LarderdProcess& larderd() { return larderd_; }
  const std::string& socket() const { return larderd_.socket(); }

  // larderd is killed, or ended by another signal, and another one starts with the same files. `between`: while there is none.
  void restart(int signal = 9, const std::function<void()>& between = nullptr);

  // Chunks of ChunkPages that all engines together can be granted: as many as there are.
  std::uint64_t slots() const { return static_cast<std::uint64_t>(first_.slots); }
  // Slots whose word is granted or quarantined, read in the index itself.
  std::uint32_t slots_in(protocol::SlotState state) const;
  // Writes into the payload of each slot in that state, as a writer does that nobody stopped. How many there are.
  std::uint32_t scribble_over(protocol::SlotState state) const;
  // No session is left: no grant, no quarantine, no lock file. A matter of microseconds.
  bool empty() const;
  // How long until empty(), at most timeout_ms; negative: it took longer.
  std::chrono::nanoseconds until_empty(int timeout_ms) const;

  // Everything that should be as it was when nobody had come yet, by name; "" when all is. Waits until that is so, at most 5 s.
  // Evicts what is stored. REQUIRES: nobody is attached.
  std::string leaks();

 private:
  struct Footprint {
    std::int64_t descriptors = 0, mappings = 0, slots = 0;
  };
  Footprint footprint();
  Footprint as_the_kernel_sees(Footprint now);  // its descriptors and mappings anew
  std::int64_t slots_to_be_had();
  std::size_t idle_namespaces() const;

  test::LarderdProcess larderd_;
  Mapping index_;
  Footprint first_;
};

// Of times: "p50 0.31 ms, p99 1.20 ms, longest 2.05 ms of 300".
std::string percentiles(std::vector<std::chrono::nanoseconds> times);
std::chrono::nanoseconds percentile(std::vector<std::chrono::nanoseconds> times, double share);

}  // namespace larder::crash
