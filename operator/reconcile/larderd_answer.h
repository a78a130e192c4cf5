// LarderdAnswer: of what a larderd says of itself (GET /v1/status), what a pool's status is made of. Pure; thread-safe.
//
// A pod can answer what it likes. It can only spoil its own pool's figures: sizes are bounded, texts cut.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::reconcile {

struct LarderdAnswer {
  std::string version = {};
  std::uint64_t capacity_bytes = 0, used_bytes = 0;            // memory
  std::uint64_t disk_capacity_bytes = 0, disk_used_bytes = 0;  // 0: no disk
  std::uint64_t requests = 0, requests_hit = 0;                // since larderd started
  std::uint64_t tokens_asked = 0, tokens_hit = 0;
  std::uint64_t engines = 0;  // attached now
  struct Backend {
    bool serving = false;  // answers reads
    std::string reason;    // against it: it does not serve, or it serves and refuses chunks
  };
  struct Fallback {
    std::string kind, why;  // "disk"; larderd's own words
  };
  std::optional<Backend> backend = {};   // nothing: it has none
  std::vector<Fallback> fallbacks = {};  // what it does without, and why; 16 at most
};

inline constexpr std::size_t kMostAnswerBytes = 1u << 20;

// What larderd's supervisor (sidecar/supervisor) says of one that does not answer.
struct LarderdDown {
  std::string why;
  bool out_of_memory = false;
};

// What pods said, by their uid: each is in one of the two, or in none where nobody answers.
struct Heard {
  std::map<std::string, LarderdAnswer> answers = {};  // the newest, of those that answered lately
  std::map<std::string, LarderdDown> down = {};       // of the last round
};

// kInvalidArgument: this is no answer of a larderd.
Result<LarderdAnswer> read_answer(std::string_view body);
// The same for the answer of a supervisor; kNotFound: larderd is ready after all.
Result<LarderdDown> read_supervisor(std::string_view body);

}  // namespace larder::reconcile
