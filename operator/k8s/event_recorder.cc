#include "operator/k8s/event_recorder.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "operator/api/names.h"
#include "operator/k8s/wall_time.h"
#include "sidecar/base/log_throttle.h"

namespace larder::k8s {
namespace {

// Limits of the API server.
// A longer note is refused by the API server with 422, so the Event would be lost.
constexpr std::size_t kMostNoteBytes = 1024, kMostWordBytes = 128, kMostNameBytes = 253;

// Cuts between characters and marks the cut: the API server refuses text that is no UTF-8.
std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  // Three bytes are kept for the dots.
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

Counter& counter(Metrics& metrics, const char* result) {
  return metrics.counter("larder_operator_events_total",
                         "Events for users: written, dropped (too many) or failed (refused).",
                         {{"result", result}});
}

}  // namespace

// kubectl describe finds Events by the uid of the object. A pod under admission has no uid yet.
api::Object reference_to(const api::Object& object) {
  api::Object reference{{"apiVersion", api::text_at(object, "apiVersion")},
                        {"kind", api::text_at(object, "kind")},
                        {"name", api::name_of(object)}};
  if (const std::string ns = api::namespace_of(object); !ns.empty()) reference["namespace"] = ns;
  if (const std::string uid = api::text_at(object, "metadata.uid"); !uid.empty())
    reference["uid"] = uid;
  return reference;
}

api::Object reference_to(const Resource& resource, const api::Object& object) {
  api::Object reference = reference_to(object);
  reference["apiVersion"] =
      resource.group.empty() ? resource.version : resource.group + "/" + resource.version;
  reference["kind"] = resource.kind;
  return reference;
}

EventRecorder::EventRecorder(ApiClient& client, std::string instance, const base::Clock& clock,
                             Metrics& metrics)
    : client_(client),
      instance_(shortened(std::move(instance), kMostWordBytes)),
      clock_(clock),
      written_(counter(metrics, "written")),
      dropped_(counter(metrics, "dropped")),
      failed_(counter(metrics, "failed")),
      life_(std::random_device()()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

EventRecorder::~EventRecorder() = default;

// The fields of events.k8s.io/v1. eventTime must have microseconds, otherwise the API server
// refuses the Event.
api::Object EventRecorder::object_of(const Event& event, const std::string& ns,
                                     const std::string& id) const {
  return {{"apiVersion", "events.k8s.io/v1"},
          {"kind", "Event"},
          {"metadata", {{"namespace", ns}, {"name", id}}},
          {"eventTime", wall_time()},
          {"reportingController", api::kFieldManager},
          {"reportingInstance", instance_},
          {"regarding", event.regarding},
          {"type", event.type},
          {"reason", shortened(event.reason, kMostWordBytes)},
          {"action", shortened(event.action, kMostWordBytes)},
          {"note", shortened(event.note, kMostNoteBytes)}};
}

void EventRecorder::record(Event event) {
  const std::string name = api::text_at(event.regarding, "name"),
                    given_ns = api::text_at(event.regarding, "namespace");
  const std::string ns = given_ns.empty() ? "default" : given_ns;  // for cluster-wide objects
  // Invalid UTF-8 in a name would make dump() throw; `replace` writes U+FFFD in its place.
  const EventText text{event.regarding.dump(-1, ' ', false, api::Object::error_handler_t::replace),
                       event.type, event.reason, event.action, event.note};
  const std::lock_guard lock(mutex_);
  // The name of an Event must be new: a random number of this process, and a counter.
  char suffix[40] = {};
  std::snprintf(suffix, sizeof(suffix), ".%08llx%08llx", static_cast<unsigned long long>(life_),
                static_cast<unsigned long long>(++made_));
  // The name of an Event is a name of a DNS subdomain, at most 253 bytes; the suffix keeps its
  // place. A label of a subdomain ends in a letter or a digit, also where the cut is.
  std::string begin = name.substr(0, kMostNameBytes - sizeof(suffix));
  begin.resize(begin.find_last_not_of("-.") + 1);
  const std::string id = begin + suffix;
  switch (folding_.take(text, id, clock_.now_ms())) {
    case EventFolding::Decision::kCounted: break;
    case EventFolding::Decision::kDropped: dropped_.add(); return;
    case EventFolding::Decision::kCreate:
      // Called with the lock of record(): a full queue must not wait for the API server.
      if (waiting_.size() >= kMostWaiting) return dropped_.add();
      waiting_.push_back({ns, id, object_of(event, ns, id), event.regarding, event.reason});
  }
  changed_.notify_all();
}

// Repeated Events are one object whose count grows, as the users of `kubectl get events` know it.
// series needs count and lastObservedTime together. A merge patch leaves the rest of the Event
// alone.
void EventRecorder::add_due_counts() {
  for (const EventFolding::Count& count : folding_.due(clock_.now_ms())) {
    if (waiting_.size() >= kMostWaiting) return dropped_.add();
    const Result<api::Object> regarding = api::parse_json(count.text.regarding);
    const std::string ns = regarding.ok() ? api::text_at(*regarding, "namespace") : "";
    api::Object patch{{"series", {{"count", count.count}, {"lastObservedTime", wall_time()}}}};
    waiting_.push_back({ns.empty() ? "default" : ns, count.id, std::move(patch),
                        regarding.ok() ? *regarding : api::Object(), count.text.reason, true});
  }
}

// No retry beyond that of the client: Events are help for people, and the reconciler must not
// depend on them.
void EventRecorder::send(const Waiting& waiting) {
  const Status status =
      waiting.patch
          ? client_.merge(resources::kEvents, waiting.ns, waiting.id, waiting.object).status()
          : client_.create(resources::kEvents, waiting.object).status();
  (status.ok() ? written_ : failed_).add();
  // Any client may send a review that names any object, so the log has one line per second.
  if (!status.ok())
    base::log_from("events", base::LogLevel::kWarning,
                   "an event could not be written: " + status.to_string(),
                   {{"kind", api::text_at(waiting.regarding, "kind")},
                    {"namespace", api::text_at(waiting.regarding, "namespace")},
                    {"name", api::text_at(waiting.regarding, "name")},
                    {"reason", waiting.reason}});
}

void EventRecorder::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    add_due_counts();
    if (!waiting_.empty()) {
      const Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      // drain() must not return between the pop and the end of the write.
      sending_ = true;
      lock.unlock();  // a request may take seconds, and record() must not wait
      send(next);
      lock.lock();
      sending_ = false;
      changed_.notify_all();
      continue;
    }
    const std::optional<std::uint64_t> next_ms = folding_.next_ms();
    // A new count changes next_ms(): the thread then computes its wait anew.
    const auto more = [&] { return !waiting_.empty() || folding_.next_ms() != next_ms; };
    if (!next_ms)
      changed_.wait(lock, stop, more);
    else
      changed_.wait_for(lock, stop,
                        std::chrono::milliseconds(std::max<std::uint64_t>(
                            1, *next_ms - std::min(*next_ms, clock_.now_ms()))),
                        more);
  }
}

bool EventRecorder::drain(unsigned timeout_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                           [this] { return waiting_.empty() && !sending_; });
}

}  // namespace larder::k8s
