#include "operator/k8s/informer.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "sidecar/base/log_throttle.h"
#include "sidecar/base/nap.h"

namespace larder::k8s {
namespace {

constexpr std::chrono::milliseconds kFirstPause{500}, kLongestPause{30'000};
// A watch that fails sooner does not count as lived. A server that ends every watch at once gets
// growing pauses.
constexpr std::uint64_t kLivedMs = 5'000;  // a watch of this length resets the pauses

using Name = std::pair<std::string, std::string>;  // namespace, name

struct Held {
  ObjectPtr object;
  std::string version;  // resourceVersion, which `trim` may remove from the object
};
using Contents = std::map<Name, Held>;

class ListWatch final : public Informer {
 public:
  ListWatch(ApiClient& client, Informing informing, const base::Clock& clock)
      : client_(client),
        informing_(std::move(informing)),
        clock_(clock),
        began_ms_(clock.now_ms()),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  ObjectPtr find(const std::string& ns, const std::string& name) const override;
  std::vector<ObjectPtr> all(const std::string& ns) const override;
  bool synced() const override;
  bool await_settled(unsigned timeout_ms) const override;
  bool await_sync(unsigned timeout_ms) override;

 private:
  // The list in progress. A complete list replaces the contents in one step.
  struct Filling {
    Contents contents;
    bool done = false;
  };

  void run(const std::stop_token& stop);
  Status follow(const std::stop_token& stop);
  Status fill_and_follow(const std::stop_token& stop);
  Status fill_by_list();
  void take(WatchEvent event);
  Held held_of(api::Object object, Name& name) const;
  void put(Contents::value_type entry);
  void drop(const Name& name);
  void replace_all(Contents contents, const std::string& version);
  void tell(const ObjectPtr& before, const ObjectPtr& after) const;
  void note(const Status& status);
  void pause(const std::stop_token& stop, bool failed);

  ApiClient& client_;
  const Informing informing_;
  const base::Clock& clock_;
  const std::uint64_t began_ms_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Contents contents_;
  bool synced_ = false;
  bool refused_ = false;  // the API server refused the last list or watch

  // Used only by the thread.
  std::string version_;  // start of the next watch; empty: list first
  bool streams_ = true;  // the server may support WatchList
  std::chrono::milliseconds pause_ = kFirstPause;
  std::minstd_rand random_{std::random_device()()};

  std::jthread thread_;  // last member: starts after and ends before all others
};

ObjectPtr ListWatch::find(const std::string& ns, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = contents_.find({ns, name});
  return found == contents_.end() ? nullptr : found->second.object;
}

std::vector<ObjectPtr> ListWatch::all(const std::string& ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<ObjectPtr> objects;
  // The map is ordered by namespace first: the objects of a namespace stand together.
  for (auto at = ns.empty() ? contents_.begin() : contents_.lower_bound({ns, ""});
       at != contents_.end(); ++at) {
    if (!ns.empty() && at->first.first != ns) break;
    objects.push_back(at->second.object);
  }
  return objects;
}

bool ListWatch::synced() const {
  const std::lock_guard lock(mutex_);
  return synced_;
}

// Readiness and reviews must not wait for a list that the API server refuses (403): an older
// ClusterRole lacks the right (F-223, F-224).
bool ListWatch::await_settled(unsigned timeout_ms) const {
  std::unique_lock lock(mutex_);
  const auto known = [this] { return synced_ || refused_; };
  const std::uint64_t age_ms = clock_.now_ms() - began_ms_;
  if (known() || age_ms >= kMostWaitMs) return true;
  const std::uint64_t wait_ms = std::min<std::uint64_t>(timeout_ms, kMostWaitMs - age_ms);
  return changed_.wait_for(lock, std::chrono::milliseconds(wait_ms), known);
}

bool ListWatch::await_sync(unsigned timeout_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return synced_; });
}

// Level-based: after any error the next list or watch brings the state of then. Missed events do
// not matter.
void ListWatch::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const std::uint64_t began_ms = clock_.now_ms();
    const Status status = follow(stop);
    if (stop.stop_requested()) return;
    if (clock_.now_ms() - began_ms >= kLivedMs) pause_ = kFirstPause;
    if (status.code() == Code::kOutOfRange || status.code() == Code::kInvalidArgument)
      // kOutOfRange is 410: the version is too old. kInvalidArgument may come from an object that
      // the decoder refuses. A new list repairs both; other errors continue from version_.
      version_.clear();  // list again
    note(status);
    pause(stop, !status.ok());
  }
}

void ListWatch::note(const Status& status) {
  bool synced = false;
  {
    const std::lock_guard lock(mutex_);
    refused_ = status.code() == Code::kPermissionDenied;
    synced = synced_;
  }
  changed_.notify_all();
  if (status.ok()) return;
  const std::string meanwhile =
      synced || informing_.without.empty() ? "" : "; until then " + informing_.without;
  base::log_refusal("watch of " + informing_.resource.plural, status.to_string(),
                    base::LogLevel::kWarning,
                    "watch ended and begins again: " + status.to_string() + meanwhile,
                    {{"resource", informing_.resource.plural}});
}

// Watches until the stream ends. version_ is then the start of the next watch.
Status ListWatch::follow(const std::stop_token& stop) {
  // streams_ stays false until the end of the process: only an answer about the feature itself gets
  // here, see HttpClient::stream().
  if (version_.empty() && streams_) {
    Status status = fill_and_follow(stop);
    if (status.code() != Code::kUnsupported) return status;
    streams_ = false;
    base::log_refusal("watch of " + informing_.resource.plural, "no stream", base::LogLevel::kInfo,
                      "the server does not stream lists; the operator reads lists in pages",
                      {{"resource", informing_.resource.plural}});
  }
  if (version_.empty())
    if (Status status = fill_by_list(); !status.ok()) return status;
  return client_.watch(informing_.resource, informing_.selector, version_, stop,
                       [this](WatchEvent event) { take(std::move(event)); });
}

// WatchList: the server sends all objects as events, then a bookmark (initial_end), then changes.
// One request instead of a list and a watch, and no large answer in the server's memory.
Status ListWatch::fill_and_follow(const std::stop_token& stop) {
  Filling filling;
  return client_.stream(informing_.resource, informing_.selector, stop, [&](WatchEvent event) {
    if (filling.done) return take(std::move(event));
    if (event.type == WatchEvent::Type::kBookmark) {
      if (!event.initial_end) return;
      filling.done = true;
      return replace_all(std::move(filling.contents),
                         api::text_at(event.object, "metadata.resourceVersion"));
    }
    Name name;
    Held held = held_of(std::move(event.object), name);
    if (event.type == WatchEvent::Type::kDeleted)
      filling.contents.erase(name);
    else
      filling.contents.insert_or_assign(name, std::move(held));
  });
}

// The list replaces the contents at its end. A reader never sees half a list.
Status ListWatch::fill_by_list() {
  Contents contents;
  const Result<std::string> version =
      client_.list_into(informing_.resource, informing_.selector,
                        {[&](api::Object object) {
                           Name name;
                           Held held = held_of(std::move(object), name);
                           contents.insert_or_assign(name, std::move(held));
                         },
                         [&] { contents.clear(); }});
  if (!version.ok()) return version.status();
  replace_all(std::move(contents), *version);
  return {};
}

void ListWatch::take(WatchEvent event) {
  const std::string version = api::text_at(event.object, "metadata.resourceVersion");
  if (event.type != WatchEvent::Type::kBookmark) {
    Name name;
    Held held = held_of(std::move(event.object), name);
    if (event.type == WatchEvent::Type::kDeleted)
      drop(name);
    else
      put({std::move(name), std::move(held)});
  }
  // A bookmark brings a version without an object, so the next watch starts near the present.
  if (!version.empty()) version_ = version;
}

Held ListWatch::held_of(api::Object object, Name& name) const {
  name = {api::namespace_of(object), api::name_of(object)};
  std::string version = api::text_at(object, "metadata.resourceVersion");
  if (const auto metadata = object.find("metadata");
      metadata != object.end() && metadata->is_object())
    // managedFields may be a large part of an object, and no reader of the cache uses the field.
    metadata->erase("managedFields");
  if (informing_.trim) informing_.trim(object);
  return {std::make_shared<const api::Object>(std::move(object)), std::move(version)};
}

void ListWatch::put(Contents::value_type entry) {
  // The lock ends before tell(): the listener may read the cache.
  const ObjectPtr after = entry.second.object;
  ObjectPtr before;
  {
    const std::lock_guard lock(mutex_);
    Held& held = contents_[entry.first];
    before = std::exchange(held, std::move(entry.second)).object;
  }
  tell(before, after);
}

void ListWatch::drop(const Name& name) {
  ObjectPtr before;
  {
    const std::lock_guard lock(mutex_);
    const auto found = contents_.find(name);
    if (found == contents_.end()) return;
    before = std::move(found->second.object);
    contents_.erase(found);
  }
  tell(before, nullptr);
}

void ListWatch::replace_all(Contents contents, const std::string& version) {
  std::vector<std::pair<ObjectPtr, ObjectPtr>> changes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, held] : contents) {
      const auto before = contents_.find(name);
      if (before == contents_.end()) changes.emplace_back(nullptr, held.object);
      // Equal versions mean equal objects: a new list after a broken watch wakes no reconcile
      // without need.
      else if (before->second.version != held.version || held.version.empty())
        changes.emplace_back(before->second.object, held.object);
    }
    for (const auto& [name, held] : contents_)
      if (!contents.contains(name)) changes.emplace_back(held.object, nullptr);
    contents_ = std::move(contents);
    synced_ = true;
  }
  // Only this thread reads version_, so the lock is not needed.
  version_ = version;
  changed_.notify_all();
  for (const auto& [before, after] : changes) tell(before, after);
}

void ListWatch::tell(const ObjectPtr& before, const ObjectPtr& after) const {
  if (informing_.changed) informing_.changed(before, after);
}

// Half of the pause is random, so that the informers of all replicas do not return at once after an
// outage.
void ListWatch::pause(const std::stop_token& stop, bool failed) {
  const auto half = static_cast<std::uint64_t>((failed ? pause_ : kFirstPause).count()) / 2;
  if (failed) pause_ = std::min(pause_ * 2, kLongestPause);
  base::nap(std::chrono::milliseconds(half + random_() % half), stop);
}

}  // namespace

std::unique_ptr<Informer> Informer::start(ApiClient& client, Informing informing,
                                          const base::Clock& clock) {
  return std::make_unique<ListWatch>(client, std::move(informing), clock);
}

}  // namespace larder::k8s
