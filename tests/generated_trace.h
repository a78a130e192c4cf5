// A trace of prompts by a seed, for tests and benches without a recorded trace: documents of
// unequal popularity that share system prompts, and conversations about the documents that come
// back longer, like those of people and agents.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "sidecar/sizing/simulation.h"

namespace larder::testing_support {

struct TraceShape {
  std::uint64_t seed = 1;
  std::size_t requests = 4000;
  std::uint64_t documents = 400, conversations = 200;  // of these so many are open at a time
  std::uint64_t chunk_bytes = 1 << 20, chunk_tokens = 256;
};

class GeneratedTrace {
 public:
  explicit GeneratedTrace(const TraceShape& shape)
      : shape_(shape), random_(shape.seed), open_(shape.conversations) {
    for (std::size_t i = 0; i < shape.requests; ++i) requests_.push_back(request());
  }
  const std::vector<sizing::TracedRequest>& requests() const { return requests_; }

 private:
  struct Conversation {
    std::vector<std::uint64_t> chunks;
    std::uint64_t turns_left = 0;
  };

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  // Few are asked for often, most seldom.
  std::uint64_t document() {
    const double part = static_cast<double>(random_() >> 11) * 0x1p-53;
    return static_cast<std::uint64_t>(std::pow(static_cast<double>(shape_.documents), part)) - 1;
  }
  static std::uint64_t name_of(std::uint64_t document, std::uint64_t chunk) {
    return ((document + 1) << 32 | chunk) * 0x9e3779b97f4a7c15ULL;
  }
  void begin(Conversation& talk) {
    const std::uint64_t about = document();
    talk.chunks.clear();
    // one of five system prompts
    for (std::uint64_t i = 0; i < 4; ++i) talk.chunks.push_back(name_of(1'000'000 + about % 5, i));
    for (std::uint64_t i = 0; i < 4 + about * 7919 % 60; ++i)
      talk.chunks.push_back(name_of(about, about % 5 << 16 | i));
    talk.turns_left = 1 + below(8);
  }
  sizing::TracedRequest request() {
    Conversation& talk = open_[below(open_.size())];
    if (talk.turns_left == 0) begin(talk);
    --talk.turns_left;
    for (std::uint64_t i = below(4); i-- > 0;) talk.chunks.push_back(name_of(2'000'000, ++made_));
    return {talk.chunks, shape_.chunk_bytes,
            talk.chunks.size() * shape_.chunk_tokens + below(shape_.chunk_tokens),
            shape_.chunk_tokens};
  }

  const TraceShape shape_;
  std::mt19937_64 random_;
  std::vector<Conversation> open_;
  std::vector<sizing::TracedRequest> requests_;
  std::uint64_t made_ = 0;
};

}  // namespace larder::testing_support
