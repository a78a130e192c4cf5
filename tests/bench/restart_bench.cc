// bench restart: the time from SIGKILL of larderd to the first hit of a connected engine, and the
// share of stored chunks that are back.
//
// restart_bench OUTPUT LARDERD. Chunks of 2 MiB fill nine tenths of the arena; then larderd is
// killed and started again at once. The hit is complete and in the new larderd: the shim has
// attached to the new epoch, found the chunk in the new index, loaded and verified it. Until then
// the engine looks up in the earlier index; the bench counts the misses there. Every chunk is
// loaded again afterwards and compared. A wrong byte or a failed load voids the run.
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "shim/client/client.h"
#include "tests/bench/larderd.h"
#include "tests/bench/report.h"

namespace {

using namespace larder;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kGiB = 1ULL << 30;
constexpr std::uint64_t kSpareBytes = kGiB;  // left to others
constexpr int kRounds = 5;
constexpr std::uint32_t kLayers = 16;
constexpr std::uint64_t kPieceBytes = 128 << 10;
constexpr std::uint64_t kChunkBytes = kLayers * kPieceBytes;
constexpr auto kDeadline = std::chrono::seconds(60);

void must(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "bench-restart: %s\n", what);
  std::exit(1);
}

// On tmpfs, of this run.
struct Folder {
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  const std::string path = "/dev/shm/larder-bench-restart-" + std::to_string(::getpid());
};

// One chunk of pages and the shim's client.
class Engine {
 public:
  explicit Engine(const std::string& socket)
      : pages_(kChunkBytes / 8), client_({socket, "bench", 2}, copy::host_copy_engine()) {
    client::NamespaceSpec spec;
    spec.fingerprint = "engine: bench restart\n";
    spec.model = "bench";
    spec.shard_count = 1;
    spec.chunk_tokens = 256;
    spec.groups = {{kPieceBytes, kLayers, 1}};
    client::GroupPages layers;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer)
      layers.push_back({reinterpret_cast<std::byte*>(pages_.data()) + layer * kPieceBytes,
                        kPieceBytes, kPieceBytes, 1});
    must(client_.set_namespace(spec).ok() && client_.register_pages(0, layers).ok() &&
             client_.wait_attached(10'000).ok(),
         "no larderd");
  }
  bool store(std::uint64_t number) {
    for (std::size_t i = 0; i < pages_.size(); ++i) pages_[i] = number * 0x9e3779b97f4a7c15ULL + i;
    return client_.store_begin(transfer(number)).ok() && client_.store_finish(5'000).stored == 1;
  }
  bool present(std::uint64_t number) const {
    const client::Transfer chunk = transfer(number);
    return client_.lookups().present(
               {reinterpret_cast<const std::uint8_t*>(chunk.hashes.data()), 16, 1}) == 1;
  }
  // Whether the chunk is there. Wrong bytes end the run.
  bool load(std::uint64_t number) {
    std::memset(pages_.data(), 0, kChunkBytes);
    const Result<std::uint64_t> ticket = client_.load(transfer(number), 5'000);
    if (!ticket.ok()) return false;
    std::vector<client::Completion> done;
    while (done.empty()) done = client_.poll(1, std::chrono::milliseconds(100));
    if (done[0].status != Code::kOk) return false;
    for (std::size_t i = 0; i < pages_.size(); ++i)
      must(pages_[i] == number * 0x9e3779b97f4a7c15ULL + i, "WRONG BYTES after a restart");
    return true;
  }
  std::uint64_t epoch() const {
    const client::State state = client_.state();
    return state.attached ? state.epoch : 0;
  }

 private:
  static client::Transfer transfer(std::uint64_t number) {
    return {0,
            0,
            0,
            0,
            {{(number + 1) * 0xd6e8feb86659fd93ULL, (number + 1) * 0xa0761d6478bd642fULL}},
            {},
            {0}};
  }
  std::vector<std::uint64_t> pages_;
  client::Client client_;
};

struct Measured {
  std::vector<double> first_hit_ms, miss_ms;
  std::uint64_t chunks = 0;
  double kept = 1;
};

// Before that a larderd with more stored chunks than touched memory evicts.
void await_touched(const config::Config& config) {
  const std::string arena = config.memory.directory + "/" + config.memory.shm_name + ".arena";
  const auto end = Clock::now() + kDeadline;
  for (struct stat file{};
       ::stat(arena.c_str(), &file) != 0 ||
       static_cast<std::uint64_t>(file.st_blocks) * 512 < config.memory.size_bytes;) {
    must(Clock::now() < end, "touching the arena takes too long");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // larderd gives the slot out at its next tick
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

// Kills larderd and starts a new larderd under the engine.
void kill_once(const std::string& program, const config::Config& config,
               std::optional<bench::Larderd>& larderd, Engine& engine, Measured& measured) {
  const std::uint64_t epoch = engine.epoch();
  const auto killed = Clock::now();
  larderd->end(SIGKILL);
  larderd.emplace(program, config);
  double missed_ms = 0;
  for (auto last = Clock::now(); engine.epoch() == 0 || engine.epoch() == epoch;) {
    must(Clock::now() - killed < kDeadline, "not attached again");
    const bool hit = engine.present(0);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const auto now = Clock::now();
    if (!hit) missed_ms += std::chrono::duration<double, std::milli>(now - last).count();
    last = now;
  }
  must(engine.load(0), "the first chunk cannot be loaded");
  measured.first_hit_ms.push_back(
      std::chrono::duration<double, std::milli>(Clock::now() - killed).count());
  measured.miss_ms.push_back(missed_ms);
  std::uint64_t back = 0;
  for (std::uint64_t i = 0; i < measured.chunks; ++i) back += engine.load(i);
  measured.kept =
      std::min(measured.kept, static_cast<double>(back) / static_cast<double>(measured.chunks));
}

Measured measure(const std::string& program, const config::Config& config) {
  std::optional<bench::Larderd> larderd(std::in_place, program, config);
  Measured measured;
  {
    Engine engine(config.socket);
    const std::uint64_t wanted = config.memory.size_bytes / 10 * 9 / (kChunkBytes + (8 << 10));
    await_touched(config);
    const auto end = Clock::now() + kDeadline;
    for (; measured.chunks < wanted; ++measured.chunks)
      must(engine.store(measured.chunks), "the arena could not be filled");
    while (!engine.present(wanted - 1)) must(Clock::now() < end, "the last chunk is not there");
    for (int round = 0; round < kRounds; ++round)
      kill_once(program, config, larderd, engine, measured);
  }
  larderd->end(SIGTERM);
  return measured;
}

bench::Row row(std::uint64_t size_gib, const std::optional<Measured>& measured,
               const std::string& note) {
  const auto cell = [&](double value) { return measured ? bench::Cell(value) : bench::Cell("-"); };
  const Measured& m = measured ? *measured : Measured();
  const auto most = [](const std::vector<double>& values) {
    return values.empty() ? 0 : bench::percentile(values, 1);
  };
  const auto middle = [](const std::vector<double>& values) {
    return values.empty() ? 0 : bench::median(values);
  };
  return {{"GiB", static_cast<double>(size_gib)},
          {"chunks", cell(static_cast<double>(m.chunks))},
          {"first hit ms", cell(middle(m.first_hit_ms))},
          {"slowest ms", cell(most(m.first_hit_ms))},
          {"of it misses ms", cell(middle(m.miss_ms))},
          {"kept", cell(m.kept)},
          {"note", note}};
}

}  // namespace

int main(int argc, char** argv) {
  must(argc == 3, "usage: restart_bench OUTPUT LARDERD");
  ::signal(SIGPIPE, SIG_IGN);
  static const Folder folder;  // static: also tidies up when must() ends the run
  const std::string& directory = folder.path;
  config::Config config;
  config.socket = directory + "/larder.sock";
  config.memory.shm_name = "larder-bench-restart";
  config.memory.directory = directory;
  config.memory.keep_on_exit = false;  // of the last one; the others are killed

  bench::Report report("restart");
  double slowest_ms = 0, least_kept = 1;
  for (const std::uint64_t size_gib : {1, 4, 8}) {
    std::fprintf(stderr, "bench-restart: %d GiB\n", static_cast<int>(size_gib));
    config.memory.size_bytes = size_gib * kGiB;
    if (bench::available_bytes() < config.memory.size_bytes + kSpareBytes) {
      report.add_row(row(size_gib, std::nullopt,
                         "skipped: " + std::to_string(bench::available_bytes() >> 20) +
                             " MiB of memory are available"));
      continue;
    }
    const Measured measured = measure(argv[2], config);
    slowest_ms = std::max(slowest_ms, bench::percentile(measured.first_hit_ms, 1));
    least_kept = std::min(least_kept, measured.kept);
    report.add_row(row(size_gib, measured, ""));
  }
  must(slowest_ms != 0, "no figure could be measured");
  report.add_goal("restart.first_hit_ms", slowest_ms, "<=", 1000);
  report.add_goal("restart.kept", least_kept, ">=", 0.999);
  return report.finish(argv[1]) ? 0 : 1;
}
