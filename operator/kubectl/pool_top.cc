#include "operator/kubectl/pool_top.h"

#include <algorithm>

#include "operator/kubectl/table.h"
#include "sidecar/base/text.h"
#include "sidecar/ctl/top.h"

namespace larder::kubectl {
namespace {

using ctl::Snapshot;

// Rates per second between two screens.
struct Sums {
  double requests = 0, asked = 0, hit = 0, loaded = 0;  // per second
};

// A restarted larderd counts from zero again: growth is then 0, never negative.
double grown(std::uint64_t now, std::uint64_t before, double seconds) {
  return static_cast<double>(now - std::min(now, before)) / seconds;
}

// Without an earlier answer, or after a restart of larderd, there is no rate.
std::optional<Sums> rates_of(const Snapshot& now, const Snapshot* before) {
  if (before == nullptr) return std::nullopt;
  const std::optional<double> seconds = ctl::seconds_between(now, *before);
  if (!seconds) return std::nullopt;
  return Sums{grown(now.all.requests, before->all.requests, *seconds),
              grown(now.all.asked, before->all.asked, *seconds),
              grown(now.all.hit, before->all.hit, *seconds),
              grown(now.all.loaded, before->all.loaded, *seconds)};
}

Row row_of(const std::string& name, const std::optional<Sums>& rates, const std::string& memory,
           const std::string& engines) {
  if (!rates) return {name, "-", "-", "-", "-", "-", memory, engines};
  return {name,
          base::rate_text(rates->requests),
          base::rate_text(rates->asked),
          base::rate_text(rates->hit),
          base::percent_text(rates->hit, rates->asked),
          base::byte_rate_text(rates->loaded),
          memory,
          engines};
}

}  // namespace

// By uid: a new pod under an old name has counters of its own.
SnapshotsByUid answers_of(const Fleet& fleet) {
  SnapshotsByUid answers;
  for (const PodState& pod : fleet.pods())
    if (const Snapshot* now = fleet.answer_of(pod)) answers.emplace(pod.view.uid, *now);
  return answers;
}

std::string pool_top(const Fleet& fleet, const SnapshotsByUid& before) {
  std::vector<Row> rows{
      {"POD", "REQUESTS", "TOKENS ASKED", "TOKENS FOUND", "HITS", "LOADED", "MEMORY", "ENGINES"}};
  Sums sums;
  std::uint64_t used = 0, capacity = 0, engines = 0;
  std::string silent;
  for (const PodState& pod : fleet.pods()) {
    if (!pod.view.has_larderd || pod.view.over) continue;
    Status why;
    const Snapshot* now = fleet.answer_of(pod, &why);
    if (now == nullptr) {
      silent += pod.view.name + ": " + why.text() + "\n";
      continue;
    }
    const auto earlier = before.find(pod.view.uid);
    const std::optional<Sums> rates =
        rates_of(*now, earlier == before.end() ? nullptr : &earlier->second);
    // Only pods with rates count in the sums: a pod that is new on this screen would show its whole
    // past as one interval.
    if (rates)
      sums = {sums.requests + rates->requests, sums.asked + rates->asked, sums.hit + rates->hit,
              sums.loaded + rates->loaded};
    used += now->memory.used_bytes;
    capacity += now->memory.capacity_bytes;
    engines += now->sessions.attached.size();
    rows.push_back(row_of(pod.view.name, rates,
                          base::bytes_text(now->memory.used_bytes) + "/" +
                              base::bytes_text(now->memory.capacity_bytes),
                          std::to_string(now->sessions.attached.size())));
  }
  if (rows.size() == 1 && silent.empty()) return "no pod with a larderd\n";
  rows.insert(rows.begin() + 1, row_of("(all)", before.empty() ? std::nullopt : std::optional(sums),
                                       base::bytes_text(used) + "/" + base::bytes_text(capacity),
                                       std::to_string(engines)));
  return table_text(rows) + (silent.empty() ? "" : "\n" + silent);
}

}  // namespace larder::kubectl
