// EventRecorder: Events (events.k8s.io/v1) that people see in `kubectl describe`. Repeats are counted, never written one by one; what
// does not fit is dropped and counted: an event is never worth waiting for.
//
// Thread-safe; one thread of its own writes.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "operator/k8s/api_client.h"
#include "operator/k8s/event_folding.h"
#include "operator/k8s/metrics.h"
#include "sidecar/base/clock.h"

namespace larder::k8s {

// What an event is about: apiVersion, kind, namespace, name and uid of an object. Of a pod under admission, its owner.
api::Object reference_to(const api::Object& object);
// The same of one out of a list or a watch's cache, which has no kind of its own.
api::Object reference_to(const Resource& resource, const api::Object& object);

struct Event {
  api::Object regarding;        // reference_to(object)
  std::string type = "Normal";  // or Warning
  std::string reason;           // CamelCase, one of a bounded number
  std::string action;           // what was tried: "Injecting"
  std::string note;             // what happened and what to do; cut to 1,024 bytes
};

class EventRecorder {
 public:
  static constexpr std::size_t kMostWaiting = 256;

  // `instance`: this replica. All that is referred to outlives it.
  EventRecorder(ApiClient& client, std::string instance, const base::Clock& clock, Metrics& metrics);
  // Drops what still waits.
  ~EventRecorder();

  void record(Event event);

  // Until everything recorded so far was written or refused; false: not within `timeout_ms`.
  bool drain(unsigned timeout_ms);

 private:
  struct Waiting {
    std::string ns, id;
    api::Object object;     // of a new event, or the patch of a known one
    api::Object regarding;  // for the log
    std::string reason;     // the same
    bool patch = false;
  };

  void run(const std::stop_token& stop);
  void send(const Waiting& waiting);
  api::Object object_of(const Event& event, const std::string& ns, const std::string& id) const;
  void add_due_counts();

  ApiClient& client_;
  const std::string instance_;
  const base::Clock& clock_;
  Counter &written_, &dropped_, &failed_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  EventFolding folding_;
  std::deque<Waiting> waiting_;
  bool sending_ = false;
  std::uint64_t made_ = 0;
  std::uint64_t life_;  // a random number: names of events are unique among all lives
  std::jthread thread_;
};

}  // namespace larder::k8s
