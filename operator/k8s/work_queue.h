// WorkQueue: names to reconcile. A name that is queued already is not queued twice; one that is being worked on is handed out again
// only after that has ended (one worker a key). Failed ones come again with a backoff of 5 ms to 16 minutes a key, with jitter.
//
// Thread-safe. The metrics are those of controller-runtime's work queue (metrics.h).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "sidecar/base/clock.h"

namespace larder::k8s {

class Metrics;

struct Key {  // what is reconciled: an object's name, never an event
  std::string ns, name;
  auto operator<=>(const Key&) const = default;
};

class WorkQueue {
 public:
  // `name`: the queue's label in metrics. `clock` and `metrics` outlive it.
  static std::unique_ptr<WorkQueue> make(std::string name, const base::Clock& clock, Metrics* metrics = nullptr);
  virtual ~WorkQueue() = default;
  virtual void add(const Key& key) = 0;
  virtual void add_after(const Key& key, std::chrono::milliseconds delay) = 0;
  // The next one, waiting for it; nothing: `stop` was asked. Each must end in done() or retry().
  virtual std::optional<Key> take(std::stop_token stop) = 0;
  virtual void done(const Key& key) = 0;   // ended well: its backoff begins anew
  virtual void retry(const Key& key) = 0;  // failed: again after its backoff
};

}  // namespace larder::k8s
