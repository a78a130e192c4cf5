// disk_writer DIRECTORY SIZE REGION SEED: opens a disk tier and stores chunks until a kill, several
// in flight. Says "open" at first, then a line for each good answer: "NUMBER GENERATION".
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>

#include "sidecar/tiers/disk/disk_tier.h"
#include "tests/conformance/tier_chunks.h"

namespace {

using namespace larder;
using tiers::testing_support::Slot;

struct Put {
  tiers::Ticket ticket;
  std::uint64_t number, generation;
  std::unique_ptr<Slot> slot;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  disk::Env env;
  base::MonotonicClock clock;
  disk::DiskOptions options;
  options.path = argv[1];
  options.size_bytes = std::strtoull(argv[2], nullptr, 10);
  options.region_bytes = std::strtoull(argv[3], nullptr, 10);
  std::mt19937_64 random(std::strtoull(argv[4], nullptr, 10));
  options.allow_uring = random() % 4 != 0;
  const Result<std::unique_ptr<tiers::Tier>> tier = disk::open_disk_tier(env, clock, options);
  if (!tier.ok()) {
    std::fprintf(stderr, "%s\n", tier.status().to_string().c_str());
    return 1;
  }
  std::printf("open\n");
  tiers::testing_support::Loop loop(**tier, clock);
  std::deque<Put> puts;
  for (std::uint64_t generation = random() % 1'000'000 * 1000;; ++generation) {
    const std::uint64_t number = random() % 200;
    const std::uint64_t payload = (1 + random() % 4) * 128 * 1024;
    const std::uint64_t piece = 64 * 1024;
    Put put{loop.next(), number, generation,
            std::make_unique<Slot>(protocol::slot_bytes(payload, piece))};
    const tiers::ChunkFacts facts =
        tiers::testing_support::fill(put.slot->span(), number, generation, payload, piece);
    if ((*tier)
            ->put(put.ticket, tiers::testing_support::key_of(number), facts, put.slot->span(),
                  loop.in_ms(60'000))
            .ok())
      puts.push_back(std::move(put));
    while (puts.size() > 6) {
      if (loop.ended(puts.front().ticket).ok())
        std::printf("%llu %llu\n", static_cast<unsigned long long>(puts.front().number),
                    static_cast<unsigned long long>(puts.front().generation));
      puts.pop_front();
    }
  }
}
