#include "sidecar/loop/refused_engines.h"

#include <algorithm>

#include "sidecar/base/log_throttle.h"

namespace larder::loop {

void RefusedEngines::note(const std::string& why, std::uint64_t now_ms) {
  // The cause without numbers, so that texts with a session number or a size count as one reason.
  // The cut bounds the status.
  Reason reason{base::without_numbers(why), why.substr(0, kMostTextBytes), 1, now_ms};
  const auto known = std::ranges::find(reasons_, reason.cause, &Reason::cause);
  if (known != reasons_.end()) {
    reason.times += known->times;
    reasons_.erase(known);
  }
  // Newest first, so pop_back() drops the reason that no engine met for the longest time.
  reasons_.insert(reasons_.begin(), std::move(reason));
  if (reasons_.size() > kMost) reasons_.pop_back();
}

void RefusedEngines::fill(stats::Stats& view, std::uint64_t now_ms) {
  std::erase_if(reasons_,
                [&](const Reason& reason) { return now_ms - reason.last_ms > kInForceMs; });
  for (const Reason& reason : reasons_)
    view.fallbacks.push_back({"engines",
                              "an engine is refused and runs without the cache: " + reason.why,
                              reason.times});
}

}  // namespace larder::loop
