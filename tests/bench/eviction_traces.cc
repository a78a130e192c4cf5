#include "tests/bench/eviction_traces.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace larder::bench {
namespace {

using Chunks = std::vector<std::uint64_t>;

class Source {
 public:
  explicit Source(std::uint64_t seed) : random_(seed), next_(seed << 40) {}

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  double part() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double pause(double mean) { return -mean * std::log(1 - part()); }
  std::uint64_t count(double mean) { return static_cast<std::uint64_t>(pause(mean) + 0.5); }
  // Of `bound` things few are asked for often; the higher the skew, the fewer.
  std::uint64_t popular(std::uint64_t bound, double skew) {
    const double most = std::pow(static_cast<double>(bound), 1 - skew) - 1;
    const auto place = static_cast<std::uint64_t>(std::pow(part() * most + 1, 1 / (1 - skew)));
    return std::min(place, bound) - 1;
  }
  void add_new(Chunks& chunks, std::uint64_t count) {
    while (count-- > 0) chunks.push_back(++next_ * 0x9e3779b97f4a7c15ULL);
  }

 private:
  std::mt19937_64 random_;
  std::uint64_t next_;
};

class Builder {
 public:
  Builder(std::string name, std::uint64_t chunks) : wanted_(chunks) {
    trace_.name = std::move(name);
  }

  bool more() const { return asked_ < wanted_; }
  void add(const Chunks& chunks, bool once = false) {
    trace_.requests.push_back(
        {chunks, 1, chunks.size() * kEvictionChunkTokens, kEvictionChunkTokens});
    trace_.once.push_back(once);
    asked_ += chunks.size();
  }
  EvictionTrace take() { return std::move(trace_); }

 private:
  EvictionTrace trace_;
  std::uint64_t wanted_, asked_ = 0;
};

// Of `open` conversations any goes on next; each turn is longer.
EvictionTrace chat(std::string name, std::uint64_t seed, std::uint64_t chunks, std::uint64_t open) {
  Source source(seed);
  Builder builder(std::move(name), chunks);
  std::vector<Chunks> systems(5);
  for (Chunks& system : systems) source.add_new(system, 6);
  std::vector<std::pair<Chunks, std::uint64_t>> talks(open);  // and the turns that are left
  while (builder.more()) {
    auto& [talk, turns] = talks[source.below(open)];
    if (turns == 0) {
      talk = systems[source.popular(systems.size(), 0.9)];
      turns = 1 + source.count(6);
      source.add_new(talk, 1 + source.count(10));
    } else {
      source.add_new(talk, source.count(3));
    }
    --turns;
    builder.add(talk);
  }
  return builder.take();
}

// Questions about documents, in phases with other documents each.
EvictionTrace documents(std::string name, std::uint64_t seed, std::uint64_t chunks,
                        std::uint64_t count, double skew, std::uint64_t phases = 1) {
  Source source(seed);
  EvictionTrace all;
  for (std::uint64_t phase = 0; phase < phases; ++phase) {
    Builder builder(name, chunks / phases);
    std::vector<Chunks> known(count);
    for (Chunks& document : known) source.add_new(document, 2 + source.count(20));
    while (builder.more()) {
      Chunks prompt = known[source.popular(count, skew)];
      source.add_new(prompt, source.below(3));
      builder.add(prompt);
    }
    EvictionTrace part = builder.take();
    all.name = part.name;
    std::ranges::move(part.requests, std::back_inserter(all.requests));
    all.once.resize(all.requests.size());
  }
  return all;
}

// The trace with one-time prompts between: `share` of all chunks.
EvictionTrace flooded(std::string name, const EvictionTrace& calm, std::uint64_t seed,
                      double share) {
  Source source(seed);
  Builder builder(std::move(name), 0);
  double regular = 0, once = 0;
  for (const sizing::TracedRequest& request : calm.requests) {
    builder.add(request.chunks);
    regular += static_cast<double>(request.chunks.size());
    while (once < regular * share / (1 - share)) {
      Chunks prompt;
      source.add_new(prompt, 1 + source.count(14));
      once += static_cast<double>(prompt.size());
      builder.add(prompt, true);
    }
  }
  EvictionTrace trace = builder.take();
  trace.calm = calm.name;
  return trace;
}

// The same prompts in turn, and with `noise` another one of them.
EvictionTrace loop(std::string name, std::uint64_t seed, std::uint64_t chunks,
                   std::uint64_t prompts, double noise) {
  Source source(seed);
  Builder builder(std::move(name), chunks);
  std::vector<Chunks> known(prompts);
  for (Chunks& prompt : known) source.add_new(prompt, 10 + source.below(20));
  for (std::uint64_t turn = 0; builder.more();)
    builder.add(source.part() < noise ? known[source.popular(prompts, 1.2)]
                                      : known[turn++ % prompts]);
  return builder.take();
}

// Agents: many short steps, each longer than the last, now and then a long pause; and sub-agents
// that share the tools alone.
EvictionTrace agents(std::string name, std::uint64_t seed, std::uint64_t chunks,
                     std::uint64_t open) {
  constexpr std::size_t kTools = 24, kLongest = 400;
  Source source(seed);
  Builder builder(std::move(name), chunks);
  std::vector<Chunks> repositories(20);
  Chunks tools;
  source.add_new(tools, kTools);
  for (Chunks& repository : repositories) {
    repository = tools;
    source.add_new(repository, 4 + source.below(30));
  }
  struct Agent {
    Chunks chunks;
    std::uint64_t steps = 0;
    double due = 0;
  };
  std::vector<Agent> all(open);
  for (Agent& agent : all) agent.due = source.pause(100);
  while (builder.more()) {
    Agent& next = *std::ranges::min_element(all, {}, &Agent::due);
    if (next.steps == 0) {
      next.chunks = repositories[source.popular(repositories.size(), 0.9)];
      next.steps = 2 + source.count(25);
    } else {
      source.add_new(next.chunks, source.count(2) + (source.part() < 0.05 ? source.count(20) : 0));
      if (next.chunks.size() > kLongest) next.chunks.resize(kTools + 20);  // compacted
    }
    --next.steps;
    next.due += 0.01 + source.pause(source.part() < 0.9 ? 3 : 300);
    builder.add(next.chunks);
    if (source.part() >= 0.08) continue;
    Chunks helper = tools;
    source.add_new(helper, source.count(15));
    builder.add(helper);
  }
  return builder.take();
}

}  // namespace

std::vector<EvictionTrace> eviction_traces(std::uint64_t seed, std::uint64_t chunks) {
  std::vector<EvictionTrace> traces;
  const auto next_seed = [&] { return seed * 100 + traces.size() + 1; };
  traces.push_back(chat("chat", next_seed(), chunks, 300));
  traces.push_back(chat("chat, many", next_seed(), chunks, 3000));
  traces.push_back(documents("documents", next_seed(), chunks, 3000, 0.8));
  traces.push_back(documents("documents, skewed", next_seed(), chunks, 6000, 1.1));
  traces.push_back(documents("shifting documents", next_seed(), chunks, 1500, 0.9, 6));
  traces.push_back(loop("loop", next_seed(), chunks, 300, 0));
  traces.push_back(loop("loop with noise", next_seed(), chunks, 1500, 0.2));
  traces.push_back(agents("agents", next_seed(), chunks, 120));
  traces.push_back(agents("agents, many", next_seed(), chunks, 600));
  for (const std::size_t calm : {0, 2})
    for (const int percent : {50, 90})
      traces.push_back(flooded(traces[calm].name + ", flood of " + std::to_string(percent) + "%",
                               traces[calm], next_seed(), percent / 100.0));
  return traces;
}

}  // namespace larder::bench
