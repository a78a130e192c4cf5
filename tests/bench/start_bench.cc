// bench start: the time until a larderd answers engines, and until all of its memory is touched,
// against a memset of an equal fresh file.
//
// start_bench OUTPUT LARDERD. Each round starts a real larderd. "ready" ends with WELCOME;
// "touched" ends when the arena file has all blocks; both begin at the start. The memset uses as
// many threads as larderd, in a new file of the same file system, from open to the last byte. Both
// arms take turns. Memory is touched once before, since the first use of memory is slower on a
// virtual machine. Huge pages are reserved for the run if this machine allows that; a row without a
// measurement has the reason.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "shim/protocol/codec.h"
#include "shim/protocol/packet.h"
#include "shim/protocol/version.h"
#include "sidecar/memory/instance_files.h"
#include "sidecar/memory/prefaulter.h"
#include "tests/bench/larderd.h"
#include "tests/bench/report.h"

namespace {

using namespace larder;
using bench::available_bytes;
using bench::Larderd;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kGiB = 1ULL << 30;
constexpr std::uint64_t kSpareBytes = kGiB;  // left to others
constexpr int kRounds = 3;
constexpr auto kDeadline = std::chrono::seconds(120);
constexpr const char* kHugeTotal = "/proc/sys/vm/nr_hugepages";
constexpr const char* kHugeFree = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench-start: %s\n", what.c_str());
  std::exit(1);
}
void must(bool held, const std::string& what) {
  if (!held) fail(what);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t read_number(const std::string& path) {
  std::uint64_t value = 0;
  std::ifstream(path) >> value;
  return value;
}

// A folder of this run on tmpfs, with a hugetlbfs that only this process and its children see, so
// that both end together.
class Place {
 public:
  Place()
      : directory_("/dev/shm/larder-bench-start-" + std::to_string(::getpid())),
        huge_before_(read_number(kHugeTotal)) {
    std::filesystem::create_directories(huge());
    mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
               ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               ::mount("none", huge().c_str(), "hugetlbfs", 0, "pagesize=2M") == 0;
  }
  ~Place() {
    if (mounted_) ::umount2(huge().c_str(), MNT_DETACH);
    give_back();
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  const std::string& directory() const { return directory_; }
  std::string huge() const { return directory_ + "/huge"; }

  // The reason why this number of bytes of such pages is not available; empty: the bytes are
  // available.
  std::optional<std::string> missing(std::uint64_t bytes, bool huge_pages) {
    if (huge_pages && !mounted_) return "no right to mount a hugetlbfs";
    const std::uint64_t free = huge_pages ? read_number(kHugeFree) << 21 : 0;
    if (free < bytes && available_bytes() < bytes - free + kSpareBytes)
      return std::to_string(available_bytes() >> 20) + " MiB of memory are available";
    if (!huge_pages || free >= bytes) return std::nullopt;
    std::ofstream(kHugeTotal) << read_number(kHugeTotal) + ((bytes - free) >> 21);
    const std::uint64_t now = read_number(kHugeFree);
    if (now << 21 >= bytes) return std::nullopt;
    give_back();
    return std::to_string(now) + " of " + std::to_string(bytes >> 21) +
           " huge pages could be reserved";
  }
  void give_back() { std::ofstream(kHugeTotal) << huge_before_; }

 private:
  const std::string directory_;
  const std::uint64_t huge_before_;
  bool mounted_ = false;
};

// Whether a larderd answers at the socket.
bool welcomed(const std::string& path) {
  const Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return false;
  protocol::Hello hello{};
  hello.version_major = protocol::kVersionMajor;
  if (!protocol::send_packet(
           socket.get(), protocol::Encoder(protocol::MessageType::kHello, 1).append(hello).packet())
           .ok())
    return false;
  pollfd waited{socket.get(), POLLIN, 0};
  if (::poll(&waited, 1, 1000) != 1) return false;
  const Result<protocol::Packet> packet = protocol::receive_packet(socket.get());
  if (!packet.ok()) return false;
  const Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
  return decoder.ok() && decoder->type() == protocol::MessageType::kWelcome;
}

// Seconds from `start` until the condition holds.
template <typename Condition>
double await(Clock::time_point start, const Larderd& larderd, const Condition& condition) {
  while (!condition()) {
    must(larderd.lives(), "larderd ended");
    must(Clock::now() - start < kDeadline, "larderd takes too long");
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return seconds_since(start);
}

struct Started {
  double ready_s = 0, touched_s = 0;
};

Started start_larderd(const std::string& program, const config::Config& config) {
  const bool huge = config.memory.hugepages != config::Hugepages::kNone;
  const std::string arena = memory::arena_path(config.memory, huge);
  Started started;
  const auto start = Clock::now();
  const Larderd larderd(program, config);
  started.ready_s = await(start, larderd, [&] { return welcomed(config.socket); });
  started.touched_s = await(start, larderd, [&] {
    struct stat file {};
    return ::stat(arena.c_str(), &file) == 0 &&
           static_cast<std::uint64_t>(file.st_blocks) * 512 >= config.memory.size_bytes;
  });
  return started;
}

double memset_file(const std::string& path, std::uint64_t bytes) {
  const auto start = Clock::now();
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  must(fd.valid() && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0, "no file " + path);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  must(memory != MAP_FAILED, "no memory");
  {
    const unsigned count = memory::Prefaulter::thread_count();
    const std::uint64_t each = bytes / count / 4096 * 4096;
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count; ++i)
      threads.emplace_back([=] {
        const std::uint64_t begin = i * each;
        std::memset(static_cast<char*>(memory) + begin, 1, i + 1 == count ? bytes - begin : each);
      });
  }
  const double seconds = seconds_since(start);
  ::munmap(memory, bytes);
  ::unlink(path.c_str());
  return seconds;
}

struct Measured {
  std::vector<double> ready_ms, touched_s, memset_s, ratios;
};

Measured measure(const std::string& program, const config::Config& config) {
  const bool huge = config.memory.hugepages != config::Hugepages::kNone;
  const std::string file =
      (huge ? config.memory.hugepage_directory : config.memory.directory) + "/memset";
  // memory that this machine has never used costs more the first time
  memset_file(file, config.memory.size_bytes);
  Measured measured;
  for (int round = 0; round < kRounds; ++round) {
    double memset_s = 0;
    if (round % 2 == 0) memset_s = memset_file(file, config.memory.size_bytes);
    const Started started = start_larderd(program, config);
    if (round % 2 == 1) memset_s = memset_file(file, config.memory.size_bytes);
    measured.ready_ms.push_back(started.ready_s * 1e3);
    measured.touched_s.push_back(started.touched_s);
    measured.memset_s.push_back(memset_s);
    measured.ratios.push_back(memset_s / started.touched_s);
  }
  return measured;
}

bench::Row row(std::uint64_t size_gib, bool huge, const std::optional<Measured>& measured,
               const std::string& note) {
  const std::string pages = huge ? "2 MiB" : "4 KiB";
  const auto cell = [&](std::vector<double> Measured::*values) {
    return measured ? bench::Cell(bench::median(*measured.*values)) : bench::Cell("-");
  };
  const auto rate = [&](std::vector<double> Measured::*values) {
    return measured ? bench::Cell(static_cast<double>(size_gib * kGiB) / 1e9 /
                                  bench::median(*measured.*values))
                    : bench::Cell("-");
  };
  return {{"GiB", static_cast<double>(size_gib)},
          {"pages", pages},
          {"ready ms", cell(&Measured::ready_ms)},
          {"touched s", cell(&Measured::touched_s)},
          {"touched GB/s", rate(&Measured::touched_s)},
          {"memset s", cell(&Measured::memset_s)},
          {"memset GB/s", rate(&Measured::memset_s)},
          {"vs memset", cell(&Measured::ratios)},
          {"note", note}};
}

}  // namespace

int main(int argc, char** argv) {
  must(argc == 3, "usage: start_bench OUTPUT LARDERD");
  ::signal(SIGPIPE, SIG_IGN);
  static Place place;  // static: also tidies up when must() ends the run
  config::Config config;
  config.socket = place.directory() + "/larder.sock";
  config.memory.keep_on_exit = false;  // each start is a cold one
  config.memory.shm_name = "larder-bench-start-" + std::to_string(::getpid());
  config.memory.directory = place.directory();
  config.memory.hugepage_directory = place.huge();

  bench::Report report("start");
  double slowest_ready_ms = 0, least_ratio = 1e9;
  for (const bool huge : {false, true}) {
    config.memory.hugepages = huge ? config::Hugepages::k2Mi : config::Hugepages::kNone;
    for (const std::uint64_t size_gib : {1, 4, 8}) {
      std::fprintf(stderr, "bench-start: %d GiB of pages of %s\n", static_cast<int>(size_gib),
                   huge ? "2 MiB" : "4 KiB");
      config.memory.size_bytes = size_gib * kGiB;
      if (const auto why = place.missing(config.memory.size_bytes, huge)) {
        report.add_row(row(size_gib, huge, std::nullopt, "skipped: " + *why));
        continue;
      }
      const Measured measured = measure(argv[2], config);
      slowest_ready_ms = std::max(slowest_ready_ms, bench::median(measured.ready_ms));
      least_ratio = std::min(least_ratio, bench::median(measured.ratios));
      report.add_row(row(size_gib, huge, measured, ""));
    }
    place.give_back();
  }
  must(slowest_ready_ms != 0, "no figure could be measured");
  report.add_goal("start.ready_ms", slowest_ready_ms, "<=", 300);
  report.add_goal("start.touched_vs_memset", least_ratio, ">=", 0.9);
  return report.finish(argv[1]) ? 0 : 1;
}
