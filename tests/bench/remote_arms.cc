#include "tests/bench/remote_arms.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/conformance/tier_chunks.h"

namespace larder::bench {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Minor faults, the tenth field of /proc/PID/stat; the second may hold blanks, within parentheses.
std::uint64_t faults_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line, field;
  std::getline(file, line);
  std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  for (int i = 3; i <= 10; ++i) rest >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

}  // namespace

void must(bool held, const std::string& what) {
  if (held) return;
  std::fprintf(stderr, "bench-remote: %s\n", what.c_str());
  std::exit(1);
}

Stopwatch::Stopwatch(pid_t server) : pid_(server) {
  must(::clock_getcpuclockid(server, &server_) == 0, "the server's processor time cannot be read");
}

Cost Stopwatch::now() const {
  return {seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID), seconds_of(server_),
          faults_of(pid_)};
}

void Stopwatch::start() {
  from_ = now();
}

void Stopwatch::stop() {
  const Cost to = now();
  cost_.seconds += to.seconds - from_.seconds;
  cost_.client_cpu += to.client_cpu - from_.client_cpu;
  cost_.server_cpu += to.server_cpu - from_.server_cpu;
  cost_.server_faults += to.server_faults - from_.server_faults;
}

Chunks::Chunks(std::uint64_t payload, std::size_t count)
    : payload_(payload),
      slot_(protocol::slot_bytes(payload, kPiece)),
      facts_(count),
      bytes_(2 * count * slot_) {
  const int file = ::memfd_create("bench-remote", MFD_CLOEXEC);
  must(file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes_)) == 0, "no shared memory");
  void* const mapped =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  ::close(file);
  must(mapped != MAP_FAILED, "no shared memory");
  memory_ = static_cast<std::byte*>(mapped);
  for (std::size_t i = 0; i < count; ++i)
    facts_[i] = tiers::testing_support::fill(source(i), i, 1, payload, kPiece);
}

Chunks::~Chunks() {
  ::munmap(memory_, bytes_);
}

remote::Record Chunks::record(std::size_t i, std::uint64_t name) const {
  return {tiers::testing_support::key_of(name), facts_[i], remote::kPartBytes};
}

}  // namespace larder::bench
