// `larderctl trace`: records the requests of engines to a running larderd, as a trace for
// `larderctl simulate`. The trace has numbers for blocks, never tokens, and goes only into a file
// of the user. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/status.h"

namespace larder::ctl {

// The lines of one reply of larderd, and the number to ask for next. `wall_ms` is the time now.
struct TraceLines {
  std::string text;
  std::uint64_t requests = 0, next = 0, lost = 0;
};
Result<TraceLines> trace_lines(const std::string& json, std::uint64_t wall_ms);

// Records for `seconds`; each write holds whole lines. `file` "" or "-": standard output, with the
// summary on standard error. Returns the summary. Refuses an existing file, which may be an earlier
// trace.
Result<std::string> record_trace(const std::string& admin_socket, const std::string& file,
                                 double seconds);

}  // namespace larder::ctl
