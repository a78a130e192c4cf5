#include "tests/crash/world.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/crash/chunk_pages.h"
#include "tests/unit/loop/client.h"

namespace larder::crash {
namespace {

namespace fs = std::filesystem;
using test::eventually;

Mapping map_index(const std::string& name) {
  const std::string start = name + ".index.";
  std::uint64_t newest = 0;  // an earlier index stays until its engines have attached again
  for (const auto& file : fs::directory_iterator("/dev/shm")) {
    const std::string found = file.path().filename().string();
    if (found.starts_with(start))
      newest = std::max<std::uint64_t>(newest, std::stoull(found.substr(start.size())));
  }
  const std::string path = "/dev/shm/" + start + std::to_string(newest);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::error_code none;
  Result<Mapping> mapping = Mapping::map_shared(fd, fs::file_size(path, none), PROT_READ, "index");
  EXPECT_TRUE(mapping.ok()) << "no index of " << name;
  return mapping.ok() ? std::move(*mapping) : Mapping();
}

// Mapped session regions of a process. Other mappings belong to the allocator or a sanitizer, and
// come and go.
std::int64_t session_mappings(const std::string& maps) {
  std::ifstream file(maps);
  std::int64_t sessions = 0;
  for (std::string line; std::getline(file, line);)
    sessions += line.find("memfd:larder-session") != std::string::npos;
  return sessions;
}

double ms(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

bool whole() {
  const char* value = std::getenv("CRASH_SUITE");
  return value != nullptr && std::string(value) == "whole";
}

DiskFolder::DiskFolder() {
  std::string pattern = (fs::temp_directory_path() / "larder-disk-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

DiskFolder::~DiskFolder() {
  std::error_code none;
  fs::remove_all(path_, none);
}

std::string DiskFolder::lines(std::uint64_t size_mib, const std::string& write) const {
  return "disk:\n  path: " + path_ + "\n  size: " + std::to_string(size_mib) +
         "MiB\n  write: " + write + "\n";
}

std::uint64_t DiskFolder::taken_bytes() const {
  std::uint64_t taken = 0;
  for (const auto& file : fs::recursive_directory_iterator(path_)) {
    struct stat info {};
    if (file.is_regular_file() && ::stat(file.path().c_str(), &info) == 0)
      taken += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return taken;
}

void World::restart(int signal, const std::function<void()>& between) {
  larderd_.kill_and_restart(signal, between);
  index_ = map_index(larderd_.name());
}

World::World(const std::string& size, const std::string& program, const std::string& more)
    : larderd_(size, "error", program, more), index_(map_index(larderd_.name())) {
  EXPECT_TRUE(eventually([this] {
    return larderd_.status_number({"memory", "touched_bytes"}) ==
           larderd_.status_number({"memory", "capacity_bytes"});
  }));
  footprint();  // for resources that are made once and kept
  first_ = footprint();
}

std::uint32_t World::slots_in(protocol::SlotState state) const {
  const auto* header = reinterpret_cast<const protocol::IndexHeader*>(index_.data());
  const auto* entries =
      reinterpret_cast<const protocol::IndexEntry*>(index_.data() + header->entries_offset);
  std::uint32_t count = 0;
  for (std::uint64_t i = 0; i < header->entry_count; ++i)
    count += protocol::word_state(entries[i].word) == state;
  return count;
}

std::uint32_t World::scribble_over(protocol::SlotState state) const {
  std::fstream arena("/dev/shm/" + larderd_.name() + ".arena",
                     std::ios::in | std::ios::out | std::ios::binary);
  const auto* header = reinterpret_cast<const protocol::IndexHeader*>(index_.data());
  const auto* entries =
      reinterpret_cast<const protocol::IndexEntry*>(index_.data() + header->entries_offset);
  std::uint32_t count = 0;
  for (std::uint64_t i = 0; i < header->entry_count; ++i) {
    if (protocol::word_state(entries[i].word) != state) continue;
    const std::uint64_t offset = (entries[i].place & UINT32_MAX) * protocol::kSlotAlignBytes;
    arena.seekp(static_cast<std::streamoff>(offset)).write("a late write", 12).flush();
    ++count;
  }
  EXPECT_TRUE(arena.good());
  return count;
}

bool World::empty() const {
  if (slots_in(protocol::SlotState::kGranted) != 0 ||
      slots_in(protocol::SlotState::kQuarantined) != 0)
    return false;
  const std::string prefix = larderd_.name() + ".lock.";
  std::error_code gone;  // other files come and go
  for (fs::directory_iterator at("/dev/shm", gone), end; at != end; at.increment(gone))
    if (at->path().filename().string().starts_with(prefix)) return false;
  return true;
}

std::chrono::nanoseconds World::until_empty(int timeout_ms) const {
  const auto start = std::chrono::steady_clock::now();
  const auto end = start + std::chrono::milliseconds(timeout_ms);
  while (!empty()) {
    if (std::chrono::steady_clock::now() > end) return std::chrono::nanoseconds(-1);
    ::usleep(50);
  }
  return std::chrono::steady_clock::now() - start;
}

// Asks for more chunks than slots, and counts the grants. The grants end with the sessions.
std::int64_t World::slots_to_be_had() {
  // one session does not get all
  constexpr std::uint64_t kSessions = 4;
  // equal slots
  const auto piece_bytes = static_cast<std::uint32_t>(ChunkPages::kGroup.payload_bytes() / 2);
  std::vector<std::unique_ptr<loop::testing_support::Client>> askers;
  std::int64_t granted = 0;
  for (std::uint64_t number = 0; number < kSessions; ++number) {
    loop::testing_support::Client& asker =
        *askers.emplace_back(new loop::testing_support::Client(larderd_.socket()));
    asker.attach();
    const std::uint32_t handle = asker.open_namespace("engine: who counts slots\n", piece_bytes);
    std::vector<protocol::BlockHash> hashes(1024);
    for (std::uint64_t i = 0; i < hashes.size(); ++i) hashes[i] = {number, i};
    for (const protocol::Grant& grant : asker.reserve(handle, hashes)) granted += grant.status == 0;
  }
  return granted;
}

World::Footprint World::footprint() {
  Footprint now;
  now.slots = slots_to_be_had();
  EXPECT_TRUE(eventually([this] {
    return empty() && larderd_.status_number({"sessions", "attached"}) == 0;
  }));
  // Connections of larderctl may still be closing, so this waits until the count is stable.
  now = as_the_kernel_sees(now);
  int still = 0;
  eventually([&] {
    const Footprint then = std::exchange(now, as_the_kernel_sees(now));
    still = then.descriptors == now.descriptors ? still + 1 : 0;
    return still == 5;
  });
  return now;
}

World::Footprint World::as_the_kernel_sees(Footprint now) {
  const std::string process = "/proc/" + std::to_string(larderd_.process().pid());
  now.descriptors = std::distance(fs::directory_iterator(process + "/fd"), {});
  now.mappings = session_mappings(process + "/maps");
  return now;
}

// The number of namespaces without a session and without a chunk, which larderd must give back.
std::size_t World::idle_namespaces() const {
  std::size_t idle = 0;
  for (const auto& space : larderd_.status_at({"namespaces"}))
    idle += space.value("sessions", 1) == 0 && space.value("chunks", 1) == 0 ? 1 : 0;
  return idle;
}

std::string World::leaks() {
  if (!larderd_.process().running()) return "larderd has ended";
  const auto settled = [this] {
    if (!empty()) return false;
    for (const auto& path : {std::vector<std::string>{"sessions", "attached"},
                             {"memory", "slots", "granted"},
                             {"memory", "slots", "quarantined"},
                             {"holds"},
                             {"grants"},
                             {"memory", "kept_bytes"}})
      if (larderd_.status_number(path) != 0) return false;
    return larderd_.status_number({"disk", "write_queue"}) <= 0;  // or there is no disk
  };
  if (!eventually(settled))
    return "sessions " + std::to_string(larderd_.status_number({"sessions", "attached"})) +
           ", granted " + std::to_string(larderd_.status_number({"memory", "slots", "granted"})) +
           ", quarantined " +
           std::to_string(larderd_.status_number({"memory", "slots", "quarantined"})) + ", holds " +
           std::to_string(larderd_.status_number({"holds"})) + ", grants " +
           std::to_string(larderd_.status_number({"grants"})) + ", kept bytes " +
           std::to_string(larderd_.status_number({"memory", "kept_bytes"})) + ", to be written " +
           std::to_string(larderd_.status_number({"disk", "write_queue"})) +
           (empty() ? "" : ", and a lock file or a word in the index");
  Footprint now = footprint();  // slots that the disk tier is writing cannot be granted
  eventually(
      [&] { return now.slots == first_.slots || (now = footprint()).slots == first_.slots; });
  eventually([&] { return (now = as_the_kernel_sees(now)).descriptors <= first_.descriptors; });
  std::string text;
  if (now.slots != first_.slots)
    text += " slots " + std::to_string(first_.slots) + " -> " + std::to_string(now.slots);
  if (now.descriptors > first_.descriptors)
    text += " descriptors " + std::to_string(first_.descriptors) + " -> " +
            std::to_string(now.descriptors);
  if (now.mappings != first_.mappings)
    text += " mappings " + std::to_string(first_.mappings) + " -> " + std::to_string(now.mappings);
  if (!eventually([this] { return idle_namespaces() == 0; }))
    text += " namespaces without session and chunk " + std::to_string(idle_namespaces());
  // the first count included the descriptors of a larderctl
  first_.descriptors = std::min(first_.descriptors, now.descriptors);
  return text;
}

std::chrono::nanoseconds percentile(std::vector<std::chrono::nanoseconds> times, double share) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
}

std::string percentiles(std::vector<std::chrono::nanoseconds> times) {
  char text[128];
  std::snprintf(text, sizeof(text), "p50 %.2f ms, p99 %.2f ms, longest %.2f ms of %zu",
                ms(percentile(times, 0.5)), ms(percentile(times, 0.99)), ms(percentile(times, 1)),
                times.size());
  return text;
}

}  // namespace larder::crash
