// ObjectStore: the objects of an API server in memory: uid, resourceVersion, generation, the status
// subresource, server-side apply with owned fields, finalizers, watches, garbage collection on
// request. Every call succeeds; FakeApi makes calls fail.
//
// Not there: validation, defaulting (set_defaulting does a test's own), admission. Thread-safe.
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

class ObjectStore {
 public:
  // As in k8s::ApiClient.
  Result<api::Object> get(const k8s::Resource& resource, const std::string& ns,
                          const std::string& name) const;
  Result<k8s::List> list(const k8s::Resource& resource, const k8s::Selector& selector) const;
  Result<api::Object> create(const k8s::Resource& resource, const api::Object& object);
  Result<api::Object> replace(const k8s::Resource& resource, const api::Object& object);
  Result<api::Object> apply(const k8s::Resource& resource, const api::Object& object,
                            const std::string& subresource);
  Result<api::Object> merge(const k8s::Resource& resource, const std::string& ns,
                            const std::string& name, const api::Object& patch);
  Status remove(const k8s::Resource& resource, const std::string& ns, const std::string& name,
                const std::string& uid);
  Status watch(const k8s::Resource& resource, const k8s::Selector& selector,
               const std::string& version, std::stop_token stop,
               const std::function<void(k8s::WatchEvent)>& on_event);

  // As explained in FakeApi.
  api::Object as_user(const k8s::Resource& resource, const api::Object& object);
  void delete_as_user(const k8s::Resource& resource, const std::string& ns,
                      const std::string& name);
  std::size_t collect_garbage();
  void set_defaulting(std::function<void(api::Object&)> defaulting);
  void cut_watches();
  void forget_versions();
  std::optional<api::Object> find(const k8s::Resource& resource, const std::string& ns,
                                  const std::string& name) const;
  std::vector<api::Object> all(const k8s::Resource& resource, const std::string& ns) const;

 private:
  // group, plural, namespace, name
  using Place = std::tuple<std::string, std::string, std::string, std::string>;
  struct Stored {
    api::Object object;
    OwnedFields owners;
  };
  struct Change {
    std::uint64_t version;
    Place place;
    std::optional<api::Object> before, after;
  };

  static Place place_of(const k8s::Resource& resource, const std::string& ns,
                        const std::string& name);
  static Place place_of(const k8s::Resource& resource, const api::Object& object);
  api::Object add(const k8s::Resource& resource, api::Object object, Stored stored);
  api::Object settle(const Place& place, Stored& stored, api::Object next);
  void record(const Place& place, std::optional<api::Object> before,
              std::optional<api::Object> after);
  void erase(const Place& place);
  void end(const Place& place);
  std::vector<k8s::WatchEvent> events_since(const k8s::Resource& resource,
                                            const k8s::Selector& selector,
                                            std::uint64_t& version) const;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<Place, Stored> objects_;
  std::vector<Change> changes_;
  std::uint64_t version_ = 1, oldest_ = 0, uids_ = 0, cuts_ = 0;
  std::function<void(api::Object&)> defaulting_;
};

}  // namespace larder::operator_test
