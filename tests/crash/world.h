// World: one larderd in a process of its own, seen from outside, with the traces of dead engines.
//
// Used by the only thread of a test, because the test forks.
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

// Whether CRASH_SUITE=whole (`make test-crash`); otherwise the suite is small.
bool whole();

// A directory for larderd's disk tier, removed on destruction.
class DiskFolder {
 public:
  DiskFolder();
  ~DiskFolder();
  DiskFolder(const DiskFolder&) = delete;
  const std::string& path() const { return path_; }
  // Lines for the configuration file; `write` as in the file.
  std::string lines(std::uint64_t size_mib, const std::string& write) const;
  // Bytes taken on the device.
  std::uint64_t taken_bytes() const;

 private:
  std::string path_;
};

class World {
 public:
  // `size` as in the configuration file; `more`: further lines of the file.
  explicit World(const std::string& size, const std::string& program = LARDERD_PATH,
                 const std::string& more = "");

  test::LarderdProcess& larderd() { return larderd_; }
  const std::string& socket() const { return larderd_.socket(); }

  // Ends larderd by SIGKILL or another signal, and starts another one with the same files.
  // `between` runs without a larderd.
  void restart(int signal = 9, const std::function<void()>& between = nullptr);

  // The number of slots for chunks of ChunkPages.
  std::uint64_t slots() const { return static_cast<std::uint64_t>(first_.slots); }
  // The number of slots in a state, read from the index.
  std::uint32_t slots_in(protocol::SlotState state) const;
  // Writes into the payload of each slot in a state, like a writer that was not stopped. Returns
  // the number of slots.
  std::uint32_t scribble_over(protocol::SlotState state) const;
  // Whether no grant, no quarantined slot and no lock file is left. Takes microseconds.
  bool empty() const;
  // The time until empty(); negative: more than timeout_ms.
  std::chrono::nanoseconds until_empty(int timeout_ms) const;

  // The names of resources that differ from those of a fresh larderd; "": none. Waits at most 5 s
  // for equality. Evicts all chunks. REQUIRES: no engine is attached.
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

// Such as "p50 0.31 ms, p99 1.20 ms, longest 2.05 ms of 300".
std::string percentiles(std::vector<std::chrono::nanoseconds> times);
std::chrono::nanoseconds percentile(std::vector<std::chrono::nanoseconds> times, double share);

}  // namespace larder::crash
