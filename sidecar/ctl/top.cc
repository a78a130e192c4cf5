#include "sidecar/ctl/top.h"

#include <algorithm>
#include <cmath>

#include "sidecar/base/text.h"
#include "sidecar/ctl/screen_lines.h"

namespace larder::ctl {
namespace {

constexpr std::size_t kNameColumn = 16, kNowColumn = 18, kEngineColumn = 34, kCountColumn = 14;
constexpr const char* kNoRate = "-";

std::string row(std::string_view name, const std::string& now, const std::string& overall) {
  return base::column(name, kNameColumn) + base::column(now, kNowColumn) + overall + "\n";
}

// Never negative, whatever the answers say.
// A forged or mixed-up reply could have a smaller counter. The difference would wrap to a huge
// rate.
std::uint64_t grown(std::uint64_t now, std::uint64_t before) {
  return now - std::min(now, before);
}

// The rates since `before`, for the rows that have a rate.
class Rates {
 public:
  Rates(const Snapshot& now, const std::optional<Snapshot>& before)
      : now_(now), seconds_(seconds_between(now, before)) {
    // A copy: the caller replaces its snapshot after each screen.
    if (seconds_) before_ = *before;
  }

  std::string hit_ratio() const {
    return seconds_
               ? base::percent_text(static_cast<double>(grown(now_.all.hit, before_.all.hit)),
                                    static_cast<double>(grown(now_.all.asked, before_.all.asked)))
               : kNoRate;
  }
  // "-" without an earlier snapshot, and after a restart of larderd.
  std::string count(std::uint64_t ModelCounts::*member) const {
    return text(per_second(member), base::rate_text);
  }
  std::string bytes(std::uint64_t ModelCounts::*member) const {
    return text(per_second(member), base::byte_rate_text);
  }
  std::string evicted() const {
    return text(
        static_cast<double>(grown(now_.memory.evicted.all(), before_.memory.evicted.all())) /
            seconds_.value_or(1),
        base::rate_text);
  }

 private:
  double per_second(std::uint64_t ModelCounts::*member) const {
    return static_cast<double>(grown(now_.all.*member, before_.all.*member)) / seconds_.value_or(1);
  }
  std::string text(double per_second, std::string (*words)(double)) const {
    return seconds_ ? words(per_second) : kNoRate;
  }

  const Snapshot& now_;
  std::optional<double> seconds_;
  Snapshot before_;
};

// "now" beside "overall": a cache that worked yesterday and fails today shows at once.
std::string rates(const Snapshot& now, const std::optional<Snapshot>& before) {
  const Rates rates(now, before);
  const ModelCounts& all = now.all;
  std::string text = row("", "now", "overall");
  text += row("hit ratio", rates.hit_ratio(),
              base::percent_text(static_cast<double>(all.hit), static_cast<double>(all.asked)));
  text += row("tokens asked", rates.count(&ModelCounts::asked), base::grouped(all.asked));
  text += row("tokens found", rates.count(&ModelCounts::hit), base::grouped(all.hit));
  text += row("requests", rates.count(&ModelCounts::requests), base::grouped(all.requests));
  text += row("loaded", rates.bytes(&ModelCounts::loaded), base::bytes_text(all.loaded));
  text += row("stored", rates.bytes(&ModelCounts::stored), base::bytes_text(all.stored));
  text += row("evicted", rates.evicted(), base::plural(now.memory.evicted.all(), "chunk"));
  text += row("prefill saved", "", base::seconds_text(all.saved_seconds));
  return text;
}

std::string memory_row(const MemoryState& memory) {
  const auto used = static_cast<double>(memory.used_bytes),
             capacity = static_cast<double>(memory.capacity_bytes);
  return base::column("memory", kNameColumn) + base::bar(used, capacity, kBarWidth) + " " +
         base::bytes_text(memory.used_bytes) + " of " + base::bytes_text(memory.capacity_bytes) +
         " (" + base::percent_text(used, capacity) + "), " + base::plural(memory.chunks, "chunk") +
         "\n";
}

std::string disk_row(const TierState& disk) {
  if (disk.place.empty()) return "";
  const auto used = static_cast<double>(disk.used_bytes),
             capacity = static_cast<double>(disk.capacity_bytes);
  return base::column("disk", kNameColumn) + base::bar(used, capacity, kBarWidth) + " " +
         base::bytes_text(disk.used_bytes) + " of " + base::bytes_text(disk.capacity_bytes) + " (" +
         base::percent_text(used, capacity) + "), " + base::plural(disk.chunks, "chunk") +
         (disk.reason.empty() ? "" : ", DEGRADED: " + disk.reason) + "\n";
}

// No bar: the capacity of a shared server is not known here.
std::string backend_row(const TierState& backend) {
  if (backend.place.empty()) return "";
  return base::column("backend", kNameColumn) + backend.place + ", " +
         base::bytes_text(backend.put_bytes) + " written, " + base::bytes_text(backend.got_bytes) +
         " brought up" + (backend.reason.empty() ? "" : ", DEGRADED: " + backend.reason) + "\n";
}

std::string session_rows(const std::vector<SessionState>& attached) {
  std::string text =
      base::column("sessions", kNameColumn) + base::grouped(attached.size()) + " attached\n";
  for (const SessionState& session : attached)
    text += "  " + base::column(session.engine, kEngineColumn) +
            base::column(base::plural(session.holds, "hold"), kCountColumn) +
            base::plural(session.grants, "grant") + (session.silent ? ", SILENT" : "") + "\n";
  return text;
}

}  // namespace

// By larderd's own clock, since the answers travel for different times. nullopt after a restart
// (another epoch): rates over two instances would be wrong.
std::optional<double> seconds_between(const Snapshot& now, const std::optional<Snapshot>& before) {
  if (!before || before->epoch != now.epoch || now.uptime_seconds <= before->uptime_seconds)
    return std::nullopt;
  return now.uptime_seconds - before->uptime_seconds;
}

std::string top_screen(const Snapshot& now, const std::optional<Snapshot>& before) {
  return headline(now) + "\n" + rates(now, before) + "\n" + memory_row(now.memory) +
         disk_row(now.disk) + backend_row(now.backend) + "\n" + session_rows(now.sessions.attached);
}

// The last headline stays: the user sees which larderd went away, and when.
std::string waiting_screen(const std::string& why, const std::optional<Snapshot>& last) {
  std::string text = "waiting for larderd: " + why + "\n";
  if (last) text += "last seen: " + headline(*last);
  return text;
}

}  // namespace larder::ctl
