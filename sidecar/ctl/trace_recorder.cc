#include "sidecar/ctl/trace_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <span>
#include <thread>

#include "shim/base/fd.h"
#include "sidecar/base/file_write.h"
#include "sidecar/ctl/admin_client.h"
#include "sidecar/ctl/answer_json.h"

namespace larder::ctl {
namespace {

constexpr std::chrono::milliseconds kPause{
    500};  // larderd stops recording after 10 s without a request

std::uint64_t wall_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

struct Sums {
  std::uint64_t requests = 0, lost = 0;
};

// Asks until a page is empty.
Status take_all(const std::string& admin_socket, std::string& from, int to, const std::string& name,
                Sums& sums) {
  for (;;) {
    const Result<std::string> answer = ask_larderd(admin_socket, Verb::kPost, "/v1/trace" + from);
    if (!answer.ok()) return answer.status();
    const Result<TraceLines> lines = trace_lines(*answer, wall_ms());
    if (!lines.ok()) return lines.status();
    if (Status written =
            base::write_all(to, std::as_bytes(std::span(lines->text)), "write " + name);
        !written.ok())
      return written;
    // larderd numbers requests. A page after a gap says how many were lost in between.
    from = "?from=" + std::to_string(lines->next);
    sums.requests += lines->requests;
    sums.lost += lines->lost;
    // A page holds a bounded number of chunks, so a busy larderd needs several pages for one pause.
    if (lines->requests == 0) return {};
  }
}

}  // namespace

Result<TraceLines> trace_lines(const std::string& json, std::uint64_t wall_ms) {
  return understood(json, [wall_ms](const nlohmann::json& page) {
    TraceLines lines;
    lines.next = number_at(page, "next");
    lines.lost = number_at(page, "lost");
    const std::uint64_t now_ms = number_at(page, "now_ms");
    for (const nlohmann::json& request : page.at("requests")) {
      ++lines.requests;
      // The format of Mooncake's traces with more fields, so that other simulators can read the
      // file. larderd gives ages of its monotonic clock;
      // wall time lets files of several larderd merge.
      const nlohmann::ordered_json line{
          {"timestamp", wall_ms - std::min(wall_ms, now_ms - number_at(request, "at_ms"))},
          {"input_length", number_at(request, "tokens")},
          {"output_length", 0},
          {"hit_length", number_at(request, "tokens_hit")},
          {"model", text_at(request, "model")},
          {"block_tokens", number_at(request, "block_tokens")},
          {"block_bytes", number_at(request, "block_bytes")},
          {"hash_ids", request.at("hash_ids").get<std::vector<std::uint64_t>>()}};
      // Whole lines only, so a reader of the growing file never sees half of a record.
      lines.text += line.dump() + "\n";
    }
    return lines;
  });
}

Result<std::string> record_trace(const std::string& admin_socket, const std::string& file,
                                 double seconds) {
  const bool printed = file.empty() || file == "-";
  // O_EXCL: a recording must not overwrite an earlier one.
  const Fd out(printed ? -1 : ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!printed && !out.valid() && errno == EEXIST)
    return Status(Code::kAlreadyExists, file + " is there already: name another file");
  if (!printed && !out.valid()) return Status::from_errno(errno, "create " + file);
  const int to = printed ? STDOUT_FILENO : out.get();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::string from;
  Sums sums;
  // The last round comes after the end, so that requests of the last pause are not lost.
  for (bool more = true; more;) {
    more = std::chrono::steady_clock::now() < end;
    if (Status taken = take_all(admin_socket, from, to, printed ? "standard output" : file, sums);
        !taken.ok())
      return taken;
    if (more)
      std::this_thread::sleep_for(
          std::min<std::chrono::duration<double>>(kPause, end - std::chrono::steady_clock::now()));
  }
  std::string text = base::plural(sums.requests, "request") + " recorded";
  if (sums.lost != 0)
    text += ", " + base::grouped(sums.lost) + " lost: they came faster than they could be taken";
  if (!printed) return text + " in " + file + "\n";
  // Standard output has the trace, so the summary goes beside.
  std::fprintf(stderr, "%s\n", text.c_str());
  return std::string();
}

}  // namespace larder::ctl
