// FakeApi: an API server in memory (ObjectStore) whose calls are noted, and fail on request.
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "operator/k8s/api_client.h"
#include "tests/unit/operator/object_store.h"

namespace larder::operator_test {

class FakeApi final : public k8s::ApiClient {
 public:
  struct Call {
    std::string verb;  // get, list, create, replace, apply, merge, remove, watch, get_path
    std::string plural, ns, name, subresource;
    bool writes() const {
      return verb != "get" && verb != "list" && verb != "watch" && verb != "get_path";
    }
  };
  struct Failure {
    Status status;
    bool done = false;  // true: the call is done, and its answer lost
  };

  Result<api::Object> get(const k8s::Resource& resource, const std::string& ns,
                          const std::string& name) override;
  Result<k8s::List> list(const k8s::Resource& resource, const k8s::Selector& selector) override;
  Result<api::Object> create(const k8s::Resource& resource, const api::Object& object) override;
  Result<api::Object> replace(const k8s::Resource& resource, const api::Object& object) override;
  Result<api::Object> apply(const k8s::Resource& resource, const api::Object& object,
                            const std::string& subresource = "") override;
  Result<api::Object> merge(const k8s::Resource& resource, const std::string& ns,
                            const std::string& name, const api::Object& patch) override;
  Status remove(const k8s::Resource& resource, const std::string& ns, const std::string& name,
                const std::string& uid = "") override;
  Status watch(const k8s::Resource& resource, const k8s::Selector& selector,
               const std::string& version, std::stop_token stop,
               const std::function<void(k8s::WatchEvent)>& on_event) override;
  Result<api::Object> get_path(const std::string& path) override;

  // The act of another client, which never fails: makes or changes an object (merge patch over the
  // present one; "status" too), or deletes the object (an object with finalizers waits for these).
  // The client owns the changed fields. The answer is the present object.
  api::Object as_user(const k8s::Resource& resource, const api::Object& object);
  void delete_as_user(const k8s::Resource& resource, const std::string& ns,
                      const std::string& name);
  // Like the garbage collector: objects go whose owners are all gone. Returns the number of removed
  // objects.
  std::size_t collect_garbage();

  // Asked before each call of ApiClient (not the calls above); empty: the call goes on. Called
  // without a lock.
  void set_failures(std::function<std::optional<Failure>(const Call&)> failures);
  // Fills in the real server's defaults, in each written object.
  void set_defaulting(std::function<void(api::Object&)> defaulting);
  void set_path(const std::string& path, api::Object answer);
  // Streams end; streams that begin again go on from their places.
  void cut_watches();
  // Versions up to now are too old to watch from, streams end.
  void forget_versions();

  std::vector<Call> calls() const;
  void forget_calls();
  std::size_t writes() const;  // among calls()
  std::optional<api::Object> find(const k8s::Resource& resource, const std::string& ns,
                                  const std::string& name) const;
  std::vector<api::Object> all(const k8s::Resource& resource, const std::string& ns = "") const;

 private:
  std::optional<Failure> begin(const Call& call);
  // Does `act`, unless `call` fails before; for a lost answer, the failure is the answer.
  template <typename Act>
  auto through(const Call& call, const Act& act) -> decltype(act());

  ObjectStore store_;
  mutable std::mutex mutex_;  // of all below
  std::vector<Call> calls_;
  std::function<std::optional<Failure>(const Call&)> failures_;
  std::map<std::string, api::Object> paths_;
};

}  // namespace larder::operator_test
