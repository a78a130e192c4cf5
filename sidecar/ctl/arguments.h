// The parsed command line of larderctl. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/config/loader.h"

namespace larder::ctl {

struct Arguments {
  std::string socket;  // empty: the socket of the configuration
  bool json = false, help = false, version = false;
  bool all = false;                        // of --help
  double interval_seconds = 1;             // of top
  std::uint64_t iterations = 0;            // of top; 0: until it is stopped
  std::optional<std::string> hashes_file;  // of prefetch, pin, unpin, evict; "-": standard input
  std::optional<std::string> config_file;  // of backend check
  std::optional<std::string> from;         // of install-payload
  // Of backend check: options beside the URL; paths are absolute.
  std::vector<config::Value> backend;
  std::string sizes, policies = "lru", block_bytes;  // of simulate
  std::string output;          // of simulate: table or json; of trace: the file
  double warm_up_percent = 0;  // of simulate
  double seconds = 60;         // of trace
  std::vector<std::string> words;
  std::vector<std::string> command_line;  // of import-lmcache: the words behind `--`
};

// Options may stand anywhere. An error is a sentence, and begins with the wrong word.
Result<Arguments> parse_arguments(std::span<const std::string_view> words);

// The error of a command line that larderctl cannot use.
inline Status wrong(const std::string& why) {
  return {Code::kInvalidArgument, why};
}

}  // namespace larder::ctl
