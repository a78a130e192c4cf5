// bench copy: store and load through the shim against the fastest known loop that copies and
// hashes, taking turns.
//
// The process has one processor, and the bench counts processor time, so all arms have one thread's
// work, whatever else the machine does. larderd has the other processors. KV pages are anonymous
// memory in scattered order. All arms use the slots of larderd's arena, because other memory, which
// the host backs in other ways, differs by a tenth. Each arm writes the bytes that the slot already
// has. All memory is touched before. Every arm's bytes are verified once, outside the timing.
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>
#include <string>

#include "cuda/host_copy_engine.h"
#include "shim/protocol/checksum.h"
#include "tests/bench/processors.h"
#include "tests/bench/report.h"
#include "tests/bench/shim_arm.h"

namespace {

using namespace larder;

constexpr std::uint64_t kMiB = 1 << 20;
// The chunks of a prompt of 1,000 tokens in a model of 8 billion parameters. A batch costs its
// RESERVE, COMMIT and hand-overs between threads, 0.15 ms of processor time on two virtual
// processors, at any size.
constexpr std::uint64_t kBatchBytes = 128 * kMiB;
// A batch, the digests and rounding of its slots, and as much again: new chunks find room before
// the old ones have gone.
constexpr std::uint64_t kArenaBytes = 2 * (kBatchBytes + 2 * kMiB);
constexpr int kRounds = 51;
// memcpy at 11 GB/s, then XXH3 at 9 GB/s, on the reference machine; make_arms() puts that arm
// second.
constexpr double kPlainReferenceGbs = 4.95;
constexpr std::size_t kPlainArm = 1;

void must(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "bench-copy: %s\n", what);
  std::exit(1);
}

std::byte* touched(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(memory != MAP_FAILED, "no memory");
  std::memset(memory, 1, bytes);
  return static_cast<std::byte*>(memory);
}

std::byte expected(std::uint64_t at) {
  return static_cast<std::byte>((at / 8 * 0x9e3779b97f4a7c15ULL) >> (8 * (at % 8)));
}

// One batch of KV pages, and the places of its chunks' payloads.
struct Batch {
  Batch(std::byte* kv_memory, std::uint64_t chunk, std::uint64_t piece)
      : kv(kv_memory), chunk_bytes(chunk), piece_bytes(piece) {
    pieces.resize(kBatchBytes / piece);
    std::vector<std::uint64_t> order(pieces.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = kv + order[i] * piece;
  }
  std::size_t chunks() const { return kBatchBytes / chunk_bytes; }
  copy::PieceList list(std::size_t c) const {
    const std::size_t each = chunk_bytes / piece_bytes;
    return {std::span(pieces).subspan(c * each, each), piece_bytes};
  }

  void fill() {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      for (std::uint64_t at = 0; at < piece_bytes; ++at)
        pieces[i][at] = expected(i * piece_bytes + at);
  }
  bool pages_right() const {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      for (std::uint64_t at = 0; at < piece_bytes; ++at)
        if (pieces[i][at] != expected(i * piece_bytes + at)) return false;
    return true;
  }
  bool slots_right() const {
    for (std::uint64_t at = 0; at < kBatchBytes; ++at)
      if (payloads[at / chunk_bytes][at % chunk_bytes] != expected(at)) return false;
    return true;
  }

  std::byte* kv;
  std::uint64_t chunk_bytes, piece_bytes;
  std::vector<std::byte*> pieces;
  std::vector<std::byte*> payloads;  // of each chunk
};

struct Arm {
  std::string name;
  std::function<void(Batch&)> before_store, before_load;  // not timed
  std::function<void(Batch&)> store, load;
  std::vector<double> store_rates, load_rates;  // GB/s
};

// Arms that only move and hash pieces, with no table, root or comparison.
// `next` is the piece that comes after `from`.
using PieceLoop = std::function<void(std::byte* to, const std::byte* from, std::uint64_t bytes,
                                     std::uint64_t* digests, const std::byte* next)>;

Arm loop_arm(const std::string& name, bench::ShimArm& shim, const PieceLoop& loop) {
  Arm arm;
  arm.name = name;
  arm.before_store = arm.before_load = [&shim](Batch& batch) {
    must(shim.await_commits(), "larderd took not every chunk");
    batch.payloads = shim.payloads();
    must(batch.payloads.size() == batch.chunks(), "larderd's index names not every chunk");
  };
  arm.store = [loop](Batch& batch) {
    std::vector<std::uint64_t> digests(protocol::units_per_piece(batch.piece_bytes));
    for (std::size_t c = 0; c < batch.chunks(); ++c) {
      const auto pieces = batch.list(c).pieces;
      for (std::size_t i = 0; i < pieces.size(); ++i)
        loop(batch.payloads[c] + i * batch.piece_bytes, pieces[i], batch.piece_bytes,
             digests.data(), pieces[std::min(i + 1, pieces.size() - 1)]);
    }
  };
  arm.load = [loop](Batch& batch) {
    std::vector<std::uint64_t> digests(protocol::units_per_piece(batch.piece_bytes));
    for (std::size_t c = 0; c < batch.chunks(); ++c) {
      const std::byte* at = batch.payloads[c];
      for (std::byte* piece : batch.list(c).pieces) {
        loop(piece, at, batch.piece_bytes, digests.data(), at + batch.piece_bytes);
        at += batch.piece_bytes;
      }
    }
  };
  return arm;
}

Arm shim_arm(bench::ShimArm& shim) {
  Arm arm;
  arm.name = "larder";
  arm.before_store = [&shim](Batch&) {
    must(shim.await_commits(), "larderd took not every chunk");
    shim.rename();
  };
  arm.before_load = [&shim](Batch&) { must(shim.await_commits(), "larderd took not every chunk"); };
  arm.store = [&shim](Batch&) { must(shim.store(), "not every chunk was stored"); };
  arm.load = [&shim](Batch&) { must(shim.load(), "not every chunk was loaded and verified"); };
  return arm;
}

std::vector<Arm> make_arms(bench::ShimArm& shim) {
  std::vector<Arm> arms;
  arms.push_back(shim_arm(shim));
  arms.push_back(loop_arm("memcpy,xxh3", shim,
                          [](std::byte* to, const std::byte* from, std::uint64_t bytes,
                             std::uint64_t* digests, const std::byte*) {
                            std::memcpy(to, from, bytes);
                            protocol::piece_digests(to, bytes, digests);
                          }));
  arms.push_back(loop_arm("4k memcpy,xxh3", shim,
                          [](std::byte* to, const std::byte* from, std::uint64_t bytes,
                             std::uint64_t* digests, const std::byte*) {
                            for (std::uint64_t at = 0; at < bytes; at += 4096) {
                              std::memcpy(to + at, from + at, 4096);
                              *digests++ = protocol::unit_digest(to + at, 4096);
                            }
                          }));
  for (const copy::HostLoop* loop : copy::host_loops())
    arms.push_back(loop_arm(std::string("fused ") + loop->name, shim,
                            [loop](std::byte* to, const std::byte* from, std::uint64_t bytes,
                                   std::uint64_t* digests, const std::byte* next) {
                              loop->copy_piece(to, from, bytes, digests, next);
                              loop->publish();
                            }));
  return arms;
}

// This process's processor time: the wall's on an idle machine, and fair to all arms on a busy one.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// GB/s.
double rate(Batch& batch, const std::function<void(Batch&)>& work) {
  const double start = processor_seconds();
  work(batch);
  return static_cast<double>(kBatchBytes) / (processor_seconds() - start) / 1e9;
}

// Every arm must have moved every byte. Larder comes first: the slots are its own, and its load
// checks the slots.
bool verify(Batch& batch, std::vector<Arm>& arms) {
  for (Arm& arm : arms) {
    const bool ours = &arm == &arms.front();
    arm.before_store(batch);
    for (std::byte* payload : batch.payloads) std::memset(payload, 0, batch.chunk_bytes);
    arm.store(batch);
    if (!ours && !batch.slots_right()) return false;
    std::memset(batch.kv, 0, kBatchBytes);
    arm.before_load(batch);
    arm.load(batch);
    if (!batch.pages_right()) return false;
  }
  return true;
}

// Median of the rounds' own ratios: other work of the machine in a round slows both sides of the
// ratio.
double ratio(const std::vector<double>& ours, const std::vector<double>& ceiling) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / ceiling[i]);
  return bench::median(ratios);
}

// Against the fastest arm but our own, by median rate.
double ratio_to_best(const std::vector<Arm>& arms, std::vector<double> Arm::*rates) {
  const auto best =
      std::max_element(arms.begin() + 1, arms.end(), [rates](const Arm& a, const Arm& b) {
        return bench::median(a.*rates) < bench::median(b.*rates);
      });
  return ratio(arms.front().*rates, *best.*rates);
}

struct Ratios {
  double store = 0, load = 0;
};

Ratios run_row(Batch& batch, std::vector<Arm> arms, bench::Report& report) {
  // In another order each time: the leftovers of an arm in the caches cost the next arm.
  std::vector<std::size_t> order(arms.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(20261121);
  for (int round = 0; round < kRounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      arms[i].before_store(batch);
      arms[i].store_rates.push_back(rate(batch, arms[i].store));
    }
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      arms[i].before_load(batch);
      arms[i].load_rates.push_back(rate(batch, arms[i].load));
    }
  }
  bench::Row row{{"chunk_mib", static_cast<double>(batch.chunk_bytes / kMiB)},
                 {"piece_kib", static_cast<double>(batch.piece_bytes / 1024)}};
  for (const Arm& arm : arms) {
    row.push_back({arm.name + " store_gbs", bench::median(arm.store_rates)});
    row.push_back({arm.name + " load_gbs", bench::median(arm.load_rates)});
  }
  const Ratios ratios{ratio_to_best(arms, &Arm::store_rates),
                      ratio_to_best(arms, &Arm::load_rates)};
  row.push_back({"store_vs_ceiling", ratios.store});
  row.push_back({"load_vs_ceiling", ratios.load});
  row.push_back({"mark", bench::far_from_reference(bench::median(arms[kPlainArm].store_rates),
                                                   kPlainReferenceGbs)});
  report.add_row(std::move(row));
  return ratios;
}

Ratios run_geometry(const std::string& directory, std::byte* kv, std::uint64_t chunk,
                    std::uint64_t piece, bench::Report& report) {
  Batch batch(kv, chunk, piece);
  std::vector<std::uint32_t> order;
  for (const std::byte* page : batch.pieces)
    order.push_back(static_cast<std::uint32_t>(static_cast<std::uint64_t>(page - kv) / piece));
  bench::ShimArm shim(directory, "copy", kArenaBytes,
                      {kv, piece, static_cast<std::uint32_t>(chunk / piece), order});
  must(shim.warm_up(), "larderd took not every chunk");
  batch.fill();
  std::vector<Arm> arms = make_arms(shim);
  must(verify(batch, arms), "wrong bytes");
  return run_row(batch, std::move(arms), report);
}

}  // namespace

// Usage: copy_bench [DIRECTORY of the JSON]
int main(int argc, char** argv) {
  bench::stay_on(bench::kCopyProcessor);
  char scratch[] = "/dev/shm/larder-bench-XXXXXX";
  if (::mkdtemp(scratch) == nullptr) return 1;
  std::byte* kv = touched(kBatchBytes);
  bench::Report report("copy");
  Ratios worst{1e9, 1e9};
  for (const std::uint64_t chunk : {2 * kMiB, 8 * kMiB, 32 * kMiB}) {
    for (const std::uint64_t piece : {16 * 1024UL, 128 * 1024UL, 2 * kMiB}) {
      const Ratios ratios = run_geometry(scratch, kv, chunk, piece, report);
      worst.store = std::min(worst.store, ratios.store);
      worst.load = std::min(worst.load, ratios.load);
    }
  }
  std::filesystem::remove_all(scratch);
  report.add_goal("copy.store_vs_ceiling", worst.store, ">=", 0.95);
  report.add_goal("copy.load_vs_ceiling", worst.load, ">=", 0.95);
  return report.finish(argc > 1 ? argv[1] : "build/bench") ? 0 : 1;
}
