// EventRecorder: Events (events.k8s.io/v1) for `kubectl describe`. The recorder counts repeats
// instead of writing each one. record() never waits: a full queue drops and counts the event.
//
// Thread-safe; one internal thread writes.
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

// The subject of an event: apiVersion, kind, namespace, name and uid of an object.
api::Object reference_to(const api::Object& object);
// The subject for an object of a list or a cache, which has no kind.
api::Object reference_to(const Resource& resource, const api::Object& object);

struct Event {
  api::Object regarding;        // reference_to(object)
  std::string type = "Normal";  // or Warning
  std::string reason;           // CamelCase, from a bounded set
  std::string action;           // the attempted action: "Injecting"
  std::string note;             // cause and remedy; cut to 1,024 bytes
};

class EventRecorder {
 public:
  static constexpr std::size_t kMostWaiting = 256;

  // `instance`: name of this replica. The arguments outlive the recorder.
  EventRecorder(ApiClient& client, std::string instance, const base::Clock& clock,
                Metrics& metrics);
  // Drops waiting events.
  ~EventRecorder();

  void record(Event event);

  // Waits until all recorded events are written or refused; false: `timeout_ms` have passed.
  bool drain(unsigned timeout_ms);

 private:
  struct Waiting {
    std::string ns, id;
    api::Object object;     // a new event, or a patch of a known one
    api::Object regarding;  // for the log
    std::string reason;     // for the log
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
  std::uint64_t life_;  // random, so that event names are unique among all processes
  std::jthread thread_;
};

}  // namespace larder::k8s
