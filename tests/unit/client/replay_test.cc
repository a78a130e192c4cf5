// A trace replayed through the shim against a real sidecar: the hits that the simulation of
// larderctl says.
#include <gtest/gtest.h>

#include <unordered_map>

#include "sidecar/sizing/simulation.h"
#include "tests/generated_trace.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::hash_of;
using testing_support::hashes_of;
using testing_support::PageLayout;

const PageLayout kOnePage{"small", 1, 1, 4096, 0, false, 0};
constexpr std::uint64_t kSlotBytes = 8192;  // with the digest table
constexpr std::size_t kStep = 4;            // chunks that an engine computes and stores at a time
constexpr std::size_t kLoaded = 8;

class ReplayTest : public loop::testing_support::SidecarTest {
 protected:
  using Hashes = std::vector<protocol::BlockHash>;

  // Looks up, holds, loads the last chunks of the hit, and stores the rest in steps.
  double hit_ratio(const std::vector<sizing::TracedRequest>& trace) {
    EngineClient engine(config_.socket, kOnePage);
    EXPECT_TRUE(engine.client->wait_attached(5000).ok());
    sizing::Simulated sums;
    for (const sizing::TracedRequest& request : trace) {
      Hashes prompt;
      for (const std::uint64_t chunk : request.chunks) prompt.push_back(hash(chunk));
      const auto [hold, hit] = engine.client->hold(hashes_of(prompt));
      if (hit != 0) load(engine, prompt, hit);
      engine.client->release(hold);
      bool room = true;
      for (std::size_t first = hit; room && first < prompt.size(); first += kStep)
        room = store(engine, prompt, first, std::min(first + kStep, prompt.size()));
      sums.tokens += request.tokens;
      sums.tokens_hit += request.tokens_of(hit);
    }
    return sums.hit_ratio();
  }

 private:
  void load(EngineClient& engine, const Hashes& prompt, std::size_t hit) {
    const std::size_t first = hit - std::min(hit, kLoaded);
    const Transfer of_load = transfer(engine, prompt, first, hit);
    engine.engine.wipe();
    const Result<std::uint64_t> ticket = engine.client->load(of_load, 5000);
    ASSERT_TRUE(ticket.ok()) << ticket.status().to_string();
    ASSERT_EQ(engine.await(*ticket).status, Code::kOk);
    for (std::size_t i = first; i < hit; ++i)
      ASSERT_TRUE(engine.engine.holds(static_cast<std::uint32_t>(i - first), prompt[i]));
  }
  bool store(EngineClient& engine, const Hashes& prompt, std::size_t first, std::size_t end) {
    Transfer of_store = transfer(engine, prompt, first, end);
    for (std::size_t i = first; i < end; ++i) {
      of_store.parents.push_back(i == 0 ? protocol::BlockHash{} : prompt[i - 1]);
      engine.engine.fill(static_cast<std::uint32_t>(i - first), prompt[i]);
    }
    EXPECT_TRUE(engine.client->store_begin(of_store).ok());
    const StoreResult result = engine.client->store_finish(5000);
    const std::size_t known = first + result.stored + result.present;
    const auto seen = [&] {  // COMMIT has no reply
      return engine.client->lookups().present(hashes_of(prompt)) >= known;
    };
    EXPECT_TRUE(wait(seen));
    return known == end;
  }
  static Transfer transfer(const EngineClient& engine, const Hashes& prompt, std::size_t first,
                           std::size_t end) {
    Transfer t;
    t.hashes.assign(prompt.begin() + static_cast<std::ptrdiff_t>(first),
                    prompt.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::uint32_t place = 0; place < end - first; ++place) {
      const auto pages = engine.engine.chunk_pages(place);
      t.pages.insert(t.pages.end(), pages.begin(), pages.end());
    }
    return t;
  }
  // Names of generated traces are no hashes: many would fall into one bucket.
  protocol::BlockHash hash(std::uint64_t chunk) {
    return hash_of(numbers_.emplace(chunk, numbers_.size()).first->second);
  }

  std::unordered_map<std::uint64_t, std::uint64_t> numbers_;
};

TEST_F(ReplayTest, HitsMatchTheSimulation) {
  larder::testing_support::TraceShape shape;
  shape.requests = 600;
  shape.chunk_bytes = kSlotBytes;
  const larder::testing_support::GeneratedTrace trace(shape);
  for (const std::uint64_t mib : {1, 4}) {
    config_.memory.size_bytes = mib << 20;
    start();
    const std::uint64_t arena_bytes = stats().arena_bytes;
    const double simulated = sizing::simulate(trace.requests(), "lru", arena_bytes)->hit_ratio();
    EXPECT_NEAR(hit_ratio(trace.requests()), simulated, 0.005) << mib << " MiB";
    EXPECT_GT(stats().evicted_capacity, 100U);
    stop();
    ASSERT_TRUE(loop::Sidecar::free_memory(config_).ok());
  }
}

}  // namespace
}  // namespace larder::client
