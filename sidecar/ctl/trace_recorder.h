// larderctl trace: records what engines ask a running larderd for, as a trace that `larderctl simulate` reads: numbers that stand for
// blocks, never tokens. It goes into a file of the user's and nowhere else. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/status.h"

namespace larder::ctl {

// The lines of one answer of larderd's, `wall_ms` being now, and what to ask for next.
struct TraceLines {
  std::string text;
  std::uint64_t requests = 0, next = 0, lost = 0;
};
Result<TraceLines> trace_lines(const std::string& json, std::uint64_t wall_ms);

// Until `seconds` are over; each line is whole in the file when it is written. `file` "" or "-": standard output, and what is to be said
// goes to standard error. Returns what to say. An existing file is refused: it may be somebody's trace.
Result<std::string> record_trace(const std::string& admin_socket, const std::string& file, double seconds);

}  // namespace larder::ctl
