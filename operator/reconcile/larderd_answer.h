// LarderdAnswer: of what a larderd says of itself (GET /v1/status), what a pool's status is made of. Pure; thread-safe.
//
// A pod can answer what it likes. It can only spoil its own pool's figures: sizes are bounded, texts cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shim/protocol/status.h"

namespace larder::reconcile {

struct LarderdAnswer {
  std::string version = {};
  std::uint64_t capacity_bytes = 0, used_bytes = 0;            // memory
  std::uint64_t disk_capacity_bytes = 0, disk_used_bytes = 0;  // 0: no disk
  std::uint64_t requests = 0, requests_hit = 0;                // since larderd started
  std::uint64_t tokens_asked = 0, tokens_hit = 0;
  std::uint64_t engines = 0;  // attached now
  struct Backend {
    bool serving = false;
    std::string reason;  // why not
  };
  std::optional<Backend> backend = {};      // nothing: it has none
  std::vector<std::string> fallbacks = {};  // what it does without, and why; 8 at most
};

inline constexpr std::size_t kMostAnswerBytes = 1u << 20;

// kInvalidArgument: this is no answer of a larderd.
Result<LarderdAnswer> read_answer(std::string_view body);

}  // namespace larder::reconcile
