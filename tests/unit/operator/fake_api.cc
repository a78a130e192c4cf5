#include "tests/unit/operator/fake_api.h"

#include <algorithm>
#include <utility>

namespace larder::operator_test {

using api::Object;
using k8s::Resource;
using k8s::Selector;

std::optional<FakeApi::Failure> FakeApi::begin(const Call& call) {
  std::function<std::optional<Failure>(const Call&)> failures;
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    failures = failures_;
  }
  return failures ? failures(call) : std::nullopt;
}

template <typename Act>
auto FakeApi::through(const Call& call, const Act& act) -> decltype(act()) {
  const std::optional<Failure> failure = begin(call);
  if (failure && !failure->done) return failure->status;
  decltype(act()) answer = act();
  if (failure) return failure->status;
  return answer;
}

Result<Object> FakeApi::get(const Resource& resource, const std::string& ns,
                            const std::string& name) {
  return through({"get", resource.plural, ns, name, ""},
                 [&] { return store_.get(resource, ns, name); });
}
Result<k8s::List> FakeApi::list(const Resource& resource, const Selector& selector) {
  return through({"list", resource.plural, selector.ns, "", ""},
                 [&] { return store_.list(resource, selector); });
}
Result<Object> FakeApi::create(const Resource& resource, const Object& object) {
  return through({"create", resource.plural, api::namespace_of(object), api::name_of(object), ""},
                 [&] { return store_.create(resource, object); });
}
Result<Object> FakeApi::replace(const Resource& resource, const Object& object) {
  return through({"replace", resource.plural, api::namespace_of(object), api::name_of(object), ""},
                 [&] { return store_.replace(resource, object); });
}
Result<Object> FakeApi::apply(const Resource& resource, const Object& object,
                              const std::string& subresource) {
  return through(
      {"apply", resource.plural, api::namespace_of(object), api::name_of(object), subresource},
      [&] { return store_.apply(resource, object, subresource); });
}
Result<Object> FakeApi::merge(const Resource& resource, const std::string& ns,
                              const std::string& name, const Object& patch) {
  return through({"merge", resource.plural, ns, name, ""},
                 [&] { return store_.merge(resource, ns, name, patch); });
}
Status FakeApi::remove(const Resource& resource, const std::string& ns, const std::string& name,
                       const std::string& uid) {
  return through({"remove", resource.plural, ns, name, ""},
                 [&] { return store_.remove(resource, ns, name, uid); });
}
Status FakeApi::watch(const Resource& resource, const Selector& selector,
                      const std::string& version, std::stop_token stop,
                      const std::function<void(k8s::WatchEvent)>& on_event) {
  return through({"watch", resource.plural, selector.ns, "", ""},
                 [&] { return store_.watch(resource, selector, version, stop, on_event); });
}
Result<Object> FakeApi::get_path(const std::string& path) {
  return through({"get_path", path, "", "", ""}, [&]() -> Result<Object> {
    const std::lock_guard lock(mutex_);
    const auto found = paths_.find(path);
    if (found == paths_.end()) return Status(Code::kNotFound, path + " not found");
    return found->second;
  });
}

Object FakeApi::as_user(const Resource& resource, const Object& object) {
  return store_.as_user(resource, object);
}
void FakeApi::delete_as_user(const Resource& resource, const std::string& ns,
                             const std::string& name) {
  store_.delete_as_user(resource, ns, name);
}
std::size_t FakeApi::collect_garbage() {
  return store_.collect_garbage();
}
void FakeApi::set_defaulting(std::function<void(Object&)> defaulting) {
  store_.set_defaulting(std::move(defaulting));
}
void FakeApi::cut_watches() {
  store_.cut_watches();
}
void FakeApi::forget_versions() {
  store_.forget_versions();
}
std::optional<Object> FakeApi::find(const Resource& resource, const std::string& ns,
                                    const std::string& name) const {
  return store_.find(resource, ns, name);
}
std::vector<Object> FakeApi::all(const Resource& resource, const std::string& ns) const {
  return store_.all(resource, ns);
}

void FakeApi::set_failures(std::function<std::optional<Failure>(const Call&)> failures) {
  const std::lock_guard lock(mutex_);
  failures_ = std::move(failures);
}
void FakeApi::set_path(const std::string& path, Object answer) {
  const std::lock_guard lock(mutex_);
  paths_[path] = std::move(answer);
}
std::vector<FakeApi::Call> FakeApi::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}
void FakeApi::forget_calls() {
  const std::lock_guard lock(mutex_);
  calls_.clear();
}
std::size_t FakeApi::writes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(calls_, &Call::writes));
}

}  // namespace larder::operator_test
