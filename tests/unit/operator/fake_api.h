// FakeApi: an API server in memory: namespaced objects, uid, resourceVersion, generation, the status subresource, server-side apply
// with owned fields, watches, garbage collection when asked for it, errors when asked for them.
//
// What it has not: validation, defaulting (set_defaulting does what a test wants), finalizers, admission. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "operator/k8s/api_client.h"
#include "tests/unit/operator/owned_fields.h"

namespace larder::operator_test {

class FakeApi final : public k8s::ApiClient {
 public:
  struct Call {
    std::string verb;  // get, list, create, replace, apply, merge, remove, watch, get_path
    std::string plural, ns, name, subresource;
    bool writes() const { return verb != "get" && verb != "list" && verb != "watch" && verb != "get_path"; }
  };
  struct Failure {
    Status status;
    bool done = false;  // true: the call is done, and its answer lost
  };

  Result<api::Object> get(const k8s::Resource& resource, const std::string& ns, const std::string& name) override;
  Result<k8s::List> list(const k8s::Resource& resource, const k8s::Selector& selector) override;
  Result<api::Object> create(const k8s::Resource& resource, const api::Object& object) override;
  Result<api::Object> replace(const k8s::Resource& resource, const api::Object& object) override;
  Result<api::Object> apply(const k8s::Resource& resource, const api::Object& object,
                            const std::string& subresource = "") override;
  Result<api::Object> merge(const k8s::Resource& resource, const std::string& ns, const std::string& name,
                            const api::Object& patch) override;
  Status remove(const k8s::Resource& resource, const std::string& ns, const std::string& name,
                const std::string& uid = "") override;
  Status watch(const k8s::Resource& resource, const k8s::Selector& selector, const std::string& version, std::stop_token stop,
               const std::function<void(k8s::WatchEvent)>& on_event) override;
  Result<api::Object> get_path(const std::string& path) override;

  // What somebody else does, never failing: makes or changes an object (merge patch over what is there; "status" too), or deletes it.
  // Who it is owns what it changed. The answer is the object as it stands.
  api::Object as_user(const k8s::Resource& resource, const api::Object& object);
  void delete_as_user(const k8s::Resource& resource, const std::string& ns, const std::string& name);
  // As the garbage collector: what has owners, none of which is there any more, goes. How many went.
  std::size_t collect_garbage();

  // Asked before each call of ApiClient (not those above); nothing: it goes on. Called without a lock.
  void set_failures(std::function<std::optional<Failure>(const Call&)> failures);
  // Fills in what the real server would, in each object written.
  void set_defaulting(std::function<void(api::Object&)> defaulting);
  void set_path(const std::string& path, api::Object answer);
  // Streams end; those that begin again go on from where they were.
  void cut_watches();
  // Versions up to now are too old to watch from, streams end.
  void forget_versions();

  std::vector<Call> calls() const;
  void forget_calls();
  std::size_t writes() const;  // among calls()
  std::optional<api::Object> find(const k8s::Resource& resource, const std::string& ns, const std::string& name) const;
  std::vector<api::Object> all(const k8s::Resource& resource, const std::string& ns = "") const;

 private:
  using Place = std::tuple<std::string, std::string, std::string, std::string>;  // group, plural, namespace, name
  struct Stored {
    api::Object object;
    OwnedFields owners;
  };
  struct Change {
    std::uint64_t version;
    Place place;
    std::optional<api::Object> before, after;
  };

  static Place place_of(const k8s::Resource& resource, const std::string& ns, const std::string& name);
  Place place_of(const k8s::Resource& resource, const api::Object& object) const;
  std::optional<Failure> begin(const Call& call);
  Result<api::Object> end(const std::optional<Failure>& failure, Result<api::Object> answer) const;
  api::Object add(const k8s::Resource& resource, api::Object object, Stored stored);
  api::Object settle(const Place& place, Stored& stored, api::Object next);
  void record(const Place& place, std::optional<api::Object> before, std::optional<api::Object> after);
  void erase(const Place& place);
  Result<api::Object> apply_locked(const k8s::Resource& resource, const api::Object& object, const std::string& subresource);
  Result<api::Object> replace_locked(const k8s::Resource& resource, const api::Object& object);
  Result<api::Object> merge_locked(const k8s::Resource& resource, const Place& place, const api::Object& patch);
  Status remove_locked(const Place& place, const std::string& uid);
  std::vector<k8s::WatchEvent> events_since(const k8s::Resource& resource, const k8s::Selector& selector,
                                            std::uint64_t& version) const;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<Place, Stored> objects_;
  std::vector<Change> changes_;
  std::uint64_t version_ = 1, oldest_ = 0, uids_ = 0, cuts_ = 0;
  std::vector<Call> calls_;
  std::function<std::optional<Failure>(const Call&)> failures_;
  std::function<void(api::Object&)> defaulting_;
  std::map<std::string, api::Object> paths_;
};

}  // namespace larder::operator_test
