// WorkQueue: names to reconcile. A name is in the queue at most once, and one worker at a time
// handles a name. A failed name returns after a backoff of 5 ms to 16 minutes with jitter.
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

struct Key {  // the name of an object; a key never carries an event
  std::string ns, name;
  auto operator<=>(const Key&) const = default;
};

class WorkQueue {
 public:
  // `name`: label of the metrics. `clock` and `metrics` outlive the queue.
  static std::unique_ptr<WorkQueue> make(std::string name, const base::Clock& clock,
                                         Metrics* metrics = nullptr);
  virtual ~WorkQueue() = default;
  virtual void add(const Key& key) = 0;
  virtual void add_after(const Key& key, std::chrono::milliseconds delay) = 0;
  // Waits for the next key; empty: `stop` was requested. Call done() or retry() for each key.
  virtual std::optional<Key> take(std::stop_token stop) = 0;
  virtual void done(const Key& key) = 0;   // success: resets the backoff
  virtual void retry(const Key& key) = 0;  // failure: queues the key again after the backoff
};

}  // namespace larder::k8s
