// LarderdAnswer: the part of GET /v1/status of a larderd that a pool's status uses. Pure;
// thread-safe.
//
// A pod may answer with any text. Sizes are bounded and texts cut, so that a wrong answer affects
// only the figures of the pod's own pool.
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
  std::uint64_t requests = 0, requests_hit = 0;                // since the start of larderd
  std::uint64_t tokens_asked = 0, tokens_hit = 0;
  std::uint64_t engines = 0;  // attached now
  struct Backend {
    bool serving = false;   // answers reads
    std::string reason;     // against it: it does not serve, or it serves and refuses chunks
    std::string mode = {};  // "cluster"; of a plug-in: name and version
  };
  struct Peers {
    std::uint64_t known = 0, reachable = 0, served_bytes = 0;
    std::string reason;  // against the peers: none, or one, cannot be asked
  };
  struct Fallback {
    std::string kind, why;  // "disk"; larderd's own words
  };
  std::optional<Backend> backend = {};   // nothing: it has none
  std::optional<Peers> peers = {};       // nothing: it asks none
  std::vector<Fallback> fallbacks = {};  // what it does without, and why; 16 at most
};

inline constexpr std::size_t kMostAnswerBytes = 1u << 20;

// The answer of the supervisor (sidecar/supervisor) about a larderd that does not answer.
struct LarderdDown {
  std::string why;
  bool out_of_memory = false;
};

// Answers by uid of the pod. A pod is in one of the maps, or in none without any answer.
struct Heard {
  std::map<std::string, LarderdAnswer> answers = {};  // newest recent answers
  std::map<std::string, LarderdDown> down = {};       // from the last round
};

// kInvalidArgument: not an answer of a larderd.
Result<LarderdAnswer> read_answer(std::string_view body);
// Reads an answer of a supervisor. kNotFound: larderd is ready after all.
Result<LarderdDown> read_supervisor(std::string_view body);

}  // namespace larder::reconcile
