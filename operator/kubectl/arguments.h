// The command line of `kubectl larder`. Options of kubectl go to kubectl unchanged. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::kubectl {

struct Arguments {
  std::vector<std::string> for_kubectl;  // "--context=blue"
  std::string ns;                        // -n; empty: the context's namespace
  bool all_namespaces = false, json = false, help = false, version = false;
  bool every_pod = false;          // --all: without a limit
  double interval_seconds = 5;     // of top
  std::uint64_t iterations = 0;    // of top; 0: without end
  std::uint64_t seconds = 60;      // of trace
  std::vector<std::string> files;  // of check, as options of kubectl: "--filename=llm.yaml"
  bool yaml = false;               // of check
  std::vector<std::string> words;
};

// Options may stand anywhere. An error is a sentence that begins with the wrong word.
Result<Arguments> parse_arguments(std::span<const std::string_view> words);

}  // namespace larder::kubectl
