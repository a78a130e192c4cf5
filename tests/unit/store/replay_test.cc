// The store hits what the simulation of its policy says (sidecar/sizing).
#include <unordered_map>

#include "sidecar/sizing/simulation.h"
#include "tests/generated_trace.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

constexpr std::size_t kStep = 4;  // chunks that an engine stores at a time

// Replays a trace as engines do: looks up, uses the hits, and stores the rest in steps.
class Replay {
 public:
  Replay(std::uint64_t slots, Eviction eviction) : box_(slots, 1000, 0, eviction) {
    box_.add_session(1);
  }

  double hit_ratio(const std::vector<sizing::TracedRequest>& trace) {
    sizing::Simulated sums;
    for (const sizing::TracedRequest& request : trace) {
      std::size_t hit = 0;
      while (hit < request.chunks.size() && box_.find(number(request.chunks[hit]))) ++hit;
      use(request, hit);
      bool room = true;
      for (std::size_t first = hit; room && first < request.chunks.size(); first += kStep)
        room = store(request, first, std::min(first + kStep, request.chunks.size()));
      sums.tokens += request.tokens;
      sums.tokens_hit += request.tokens_of(hit);
    }
    return sums.hit_ratio();
  }

 private:
  void use(const sizing::TracedRequest& request, std::size_t chunks) {
    box_.store().begin_uses();
    while (chunks-- > 0) {
      const auto found = box_.find(number(request.chunks[chunks]));
      box_.store().touch(found->slot, found->generation);
    }
  }
  bool store(const sizing::TracedRequest& request, std::size_t first, std::size_t end) {
    std::vector<protocol::BlockHash> hashes, parents;
    for (std::size_t i = first; i < end; ++i) {
      hashes.push_back(box_.key(number(request.chunks[i])).hash);
      parents.push_back(i == 0 ? protocol::BlockHash{}
                               : box_.key(number(request.chunks[i - 1])).hash);
    }
    std::vector<protocol::Grant> grants(hashes.size());
    box_.store().reserve(1, {{}, box_.handle(), 0, 0}, hashes, grants, parents);
    for (const protocol::Grant& grant : grants)
      if (grant.status == 0) box_.store().commit(1, {grant.slot, 0, grant.generation, 1});
    return grants.back().status != status_of(protocol::GrantStatus::kNoSpace);
  }

  // Names of generated traces are no hashes: many would fall into one bucket.
  std::uint64_t number(std::uint64_t chunk) {
    return numbers_.emplace(chunk, numbers_.size()).first->second;
  }

  StoreBox box_;
  std::unordered_map<std::uint64_t, std::uint64_t> numbers_;
};

void compare(Eviction eviction, const char* policy, double most) {
  larder::testing_support::TraceShape shape;
  shape.requests = 1500;
  const larder::testing_support::GeneratedTrace trace(shape);
  for (const std::uint64_t slots : {48, 96, 400, 1600}) {
    const double simulated =
        sizing::simulate(trace.requests(), policy, slots * shape.chunk_bytes)->hit_ratio();
    EXPECT_NEAR(Replay(slots, eviction).hit_ratio(trace.requests()), simulated, most)
        << slots << " slots";
  }
}

TEST(Replays, HitsMatchTheSimulation) {
  compare(Eviction::kLru, "lru", 0.005);
}

// The store evicts a 256th of its slots at a time, and counts moves of prompts in another order.
TEST(Replays, HitsOfTheAdaptivePolicyMatchTheSimulation) {
  compare(Eviction::kAdaptive, "adaptive", 0.02);
}

}  // namespace
}  // namespace larder::store::testing_support
