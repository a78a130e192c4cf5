// bench recovery: opening a disk tier of a million chunks by its footers, against reading every
// record's header in turn, as a tier without footers must.
//
// Chunks have 4 KiB, so a million take 12 GiB (RECOVERY_CHUNKS: fewer). Both arms use O_DIRECT,
// without the page cache. As in larderd, opening enters every chunk in a residency filter, sized
// for the same number of chunks of 64 KiB. After each opening some chunks are looked up there,
// fetched and verified.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "sidecar/tiering/residency_filter.h"
#include "sidecar/tiers/disk/device.h"
#include "sidecar/tiers/disk/disk_tier.h"
#include "sidecar/tiers/disk/format.h"
#include "tests/bench/report.h"
#include "tests/conformance/tier_chunks.h"

namespace {

using namespace larder;
using tiers::testing_support::Loop;
using tiers::testing_support::Slot;

constexpr std::uint64_t kPayload = 4096;
constexpr std::uint64_t kRecordBytes = 3 * 4096;
constexpr std::uint64_t kRegionBytes = 256ULL << 20;
constexpr std::uint64_t kUsualChunk = 64 << 10;
constexpr std::uint64_t kVerified = 100;
constexpr int kOpenings = 5;

void must(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "bench-recovery: %s\n", what);
  std::exit(1);
}

std::unique_ptr<tiers::Tier> open_tier(disk::Env& env, const base::Clock& clock,
                                       const disk::DiskOptions& options) {
  Result<std::unique_ptr<tiers::Tier>> tier = disk::open_disk_tier(env, clock, options);
  if (!tier.ok()) std::fprintf(stderr, "%s\n", tier.status().to_string().c_str());
  must(tier.ok(), "no disk tier");
  return *std::move(tier);
}

void write_chunks(tiers::Tier& tier, const base::Clock& clock, std::uint64_t chunks) {
  Loop loop(tier, clock);
  Slot slot(protocol::slot_bytes(kPayload, kPayload));
  std::vector<tiers::Message> messages;
  std::uint64_t answered = 0;
  // One chunk's bytes for all but the first hundred, which are the ones verified.
  for (std::uint64_t number = 0; number < kVerified; ++number, ++answered)
    must(loop.put(number, 1, 1, kPayload).ok(), "put");
  const tiers::ChunkFacts facts =
      tiers::testing_support::fill(slot.span(), 0, 1, kPayload, kPayload);
  for (std::uint64_t number = kVerified; answered < chunks;) {
    while (number < chunks && number - answered < 500) {
      must(tier.put(number, tiers::testing_support::key_of(number), facts, slot.span(),
                    loop.in_ms(60'000))
               .ok(),
           "refused");
      ++number;
    }
    pollfd waiting{tier.message_fd(), POLLIN, 0};
    ::poll(&waiting, 1, 1000);
    messages.clear();
    tier.take_messages(messages);
    for (const tiers::Message& message : messages) must(message.status.ok(), "a put failed");
    answered += messages.size();
  }
  must(loop.flush().ok() && tier.close(60'000), "close");
}

// Whether engines would see the chunks that are verified.
bool announced(const tiering::ResidencyFilter& region) {
  const Result<protocol::ResidencyReader> reader =
      protocol::ResidencyReader::open(region.data(), region.bytes());
  must(reader.ok(), "the residency filter");
  for (std::uint64_t number = 0; number < kVerified; ++number) {
    const tiers::ChunkKey key = tiers::testing_support::key_of(number);
    if (!reader->has(reader->place(key.namespace_id, key.hash, key.shard, key.group))) return false;
  }
  return true;
}

// Milliseconds to follow the headers of every region. Returns how many records there were.
std::uint64_t scan(const std::string& path, std::uint64_t file_bytes) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  must(file.valid(), "no file");
  disk::AlignedBytes block(4096);
  std::uint64_t records = 0;
  for (std::uint64_t region = disk::kHeadBytes; region < file_bytes; region += kRegionBytes) {
    for (std::uint64_t at = 0; at < kRegionBytes; at += kRecordBytes, ++records) {
      must(::pread(file.get(), block.span().data(), 4096, static_cast<off_t>(region + at)) == 4096,
           "pread");
      if (std::memcmp(block.span().data(), "LDR1", 4) != 0) break;
    }
  }
  return records;
}

}  // namespace

// Usage: recovery_bench [DIRECTORY of the JSON [DIRECTORY on the disk]]
int main(int argc, char** argv) {
  const std::string out = argc > 1 ? argv[1] : "build/bench";
  const std::string scratch = std::string(argc > 2 ? argv[2] : out) + "/recovery-scratch";
  const char* told = std::getenv("RECOVERY_CHUNKS");
  const std::uint64_t chunks = told != nullptr ? std::strtoull(told, nullptr, 10) : 1'000'000;
  std::filesystem::remove_all(scratch);
  std::filesystem::create_directories(scratch);
  disk::Env env;
  const base::MonotonicClock clock;
  disk::DiskOptions options;
  options.path = scratch;
  options.region_bytes = kRegionBytes;
  options.size_bytes = (chunks * kRecordBytes / kRegionBytes + 5) * kRegionBytes * 1001 / 1000;
  write_chunks(*open_tier(env, clock, options), clock, chunks);

  std::vector<double> opened_ms;
  for (int i = 0; i < kOpenings; ++i) {
    const std::uint64_t start = clock.now_ns();
    Result<std::shared_ptr<tiering::ResidencyFilter>> region =
        tiering::ResidencyFilter::create(chunks * kUsualChunk);
    must(region.ok(), "no residency filter");
    options.residents = *region;
    const std::unique_ptr<tiers::Tier> tier = open_tier(env, clock, options);
    opened_ms.push_back(static_cast<double>(clock.now_ns() - start) / 1e6);
    must(tier->counters().chunks == chunks && announced(**region),
         "not every chunk was found again");
    Loop loop(*tier, clock);
    for (std::uint64_t number = 0; number < kVerified; ++number)
      must(loop.get(number, 1, kPayload).ok(), "wrong bytes");
  }
  const std::string file = scratch + "/larder/chunks";
  const std::uint64_t start = clock.now_ns();
  must(scan(file, std::filesystem::file_size(file)) >= chunks, "the scan found less");
  const double scan_ms = static_cast<double>(clock.now_ns() - start) / 1e6;
  std::filesystem::remove_all(scratch);

  const double footers_ms = bench::median(opened_ms), scale = 1e6 / static_cast<double>(chunks);
  bench::Report report("recovery");
  report.add_row({{"chunks", static_cast<double>(chunks)},
                  {"footers_ms", footers_ms},
                  {"slowest of 5", *std::ranges::max_element(opened_ms)},
                  {"headers_ms", scan_ms}});
  report.add_goal("recovery.ms_1m", footers_ms * scale, "<=", 300);
  report.add_goal("recovery.vs_scan", scan_ms / footers_ms, ">=", 50);
  return report.finish(out) ? 0 : 1;
}
