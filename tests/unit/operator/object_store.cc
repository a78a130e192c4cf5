#include "tests/unit/operator/object_store.h"

#include <algorithm>
#include <utility>

namespace larder::operator_test {
namespace {

using api::Object;
using k8s::Resource;
using k8s::Selector;
using k8s::WatchEvent;

const std::string kUs = std::string("larder-operator");

std::string meta(const Object& object, const char* key) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return "";
  const auto found = metadata->find(key);
  return found != metadata->end() && found->is_string() ? found->get<std::string>() : "";
}

bool has_status(const Resource& resource) {
  return resource.plural != "configmaps" && resource.plural != "secrets" &&
         resource.plural != "events" && resource.plural != "leases" &&
         resource.plural != "networkpolicies";
}

// "a=b,c,!d" of labels.
bool labels_match(const Object& object, const std::string& selector) {
  const Object labels = object.value(Object::json_pointer("/metadata/labels"), Object::object());
  for (std::size_t at = 0; at < selector.size();) {
    const std::size_t end = std::min(selector.find(',', at), selector.size());
    const std::string term = selector.substr(at, end - at);
    at = end + 1;
    const std::size_t equal = term.find('=');
    const bool absent = term.starts_with("!");
    const std::string key = absent ? term.substr(1) : term.substr(0, equal);
    if (labels.contains(key) == absent) return false;
    if (!absent && equal != std::string::npos &&
        labels[key] != term.substr(term[equal + 1] == '=' ? equal + 2 : equal + 1))
      return false;
  }
  return true;
}

bool fields_match(const Object& object, const std::string& selector) {
  for (std::size_t at = 0; at < selector.size();) {
    const std::size_t end = std::min(selector.find(',', at), selector.size());
    const std::string term = selector.substr(at, end - at);
    at = end + 1;
    const std::size_t equal = term.find('=');
    std::string path = "/" + term.substr(0, equal);
    std::ranges::replace(path, '.', '/');
    if (object.value(Object::json_pointer(path), "") != term.substr(equal + 1)) return false;
  }
  return true;
}

bool matches(const Object& object, const Selector& selector) {
  return (selector.ns.empty() || meta(object, "namespace") == selector.ns) &&
         labels_match(object, selector.labels) && fields_match(object, selector.fields);
}

// Without the fields that each write changes by itself.
Object without_versions(Object object) {
  object["metadata"].erase("resourceVersion");
  object["metadata"].erase("generation");
  return object;
}
Object spec_of(Object object) {
  object.erase("metadata");
  object.erase("status");
  return object;
}
// The fields that only the server decides.
void keep_server_fields(Object& next, const Object& live) {
  for (const char* key :
       {"uid", "resourceVersion", "generation", "creationTimestamp", "name", "namespace"}) {
    next["metadata"].erase(key);
    if (live["metadata"].contains(key)) next["metadata"][key] = live["metadata"][key];
  }
}
void keep_status(const Resource& resource, Object& next, const Object& live) {
  if (!has_status(resource)) return;
  next.erase("status");
  if (live.contains("status")) next["status"] = live["status"];
}

bool is_held(const Object& object) {
  return !object["metadata"].value("finalizers", Object::array()).empty();
}

Status not_found(const Resource& resource, const std::string& name) {
  return {Code::kNotFound, resource.plural + " \"" + name + "\" not found"};
}

}  // namespace

ObjectStore::Place ObjectStore::place_of(const Resource& resource, const std::string& ns,
                                         const std::string& name) {
  return {resource.group, resource.plural, resource.namespaced ? ns : "", name};
}
ObjectStore::Place ObjectStore::place_of(const Resource& resource, const Object& object) {
  return place_of(resource, meta(object, "namespace"), meta(object, "name"));
}

void ObjectStore::record(const Place& place, std::optional<Object> before,
                         std::optional<Object> after) {
  changes_.push_back({version_, place, std::move(before), std::move(after)});
  changed_.notify_all();
}

Object ObjectStore::add(const Resource& resource, Object object, Stored stored) {
  if (meta(object, "name").empty() && !meta(object, "generateName").empty())
    object["metadata"]["name"] = meta(object, "generateName") + std::to_string(uids_ + 1);
  const Place place = place_of(resource, object);
  object["metadata"]["uid"] = "uid-" + std::to_string(++uids_);
  object["metadata"]["generation"] = 1;
  object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z";
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  object["apiVersion"] =
      resource.group.empty() ? resource.version : resource.group + "/" + resource.version;
  object["kind"] = resource.kind;
  if (defaulting_) defaulting_(object);
  stored.object = object;
  objects_[place] = std::move(stored);
  record(place, std::nullopt, object);
  return object;
}

// A write without a change leaves the version and notifies no watch.
Object ObjectStore::settle(const Place& place, Stored& stored, Object next) {
  if (defaulting_) defaulting_(next);
  if (without_versions(next) == without_versions(stored.object)) return stored.object;
  if (spec_of(next) != spec_of(stored.object))
    next["metadata"]["generation"] = stored.object["metadata"].value("generation", 1) + 1;
  next["metadata"]["resourceVersion"] = std::to_string(++version_);
  if (is_held(stored.object) && !is_held(next) && !meta(next, "deletionTimestamp").empty()) {
    erase(place);
    return next;
  }
  Object before = std::exchange(stored.object, next);
  record(place, std::move(before), next);
  return next;
}

// Like DELETE: an object with finalizers waits for these.
void ObjectStore::end(const Place& place) {
  const auto found = objects_.find(place);
  if (found == objects_.end()) return;
  if (!is_held(found->second.object)) return erase(place);
  if (!meta(found->second.object, "deletionTimestamp").empty()) return;
  Object going = found->second.object;
  going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  settle(place, found->second, std::move(going));
}

void ObjectStore::erase(const Place& place) {
  const auto found = objects_.find(place);
  if (found == objects_.end()) return;
  ++version_;
  Object last = std::move(found->second.object);
  objects_.erase(found);
  record(place, std::move(last), std::nullopt);
}

Result<Object> ObjectStore::get(const Resource& resource, const std::string& ns,
                                const std::string& name) const {
  const std::optional<Object> found = find(resource, ns, name);
  return found ? Result<Object>(*found) : Result<Object>(not_found(resource, name));
}

Result<k8s::List> ObjectStore::list(const Resource& resource, const Selector& selector) const {
  const std::lock_guard lock(mutex_);
  k8s::List list{{}, std::to_string(version_)};
  for (const auto& [place, stored] : objects_)
    if (std::get<0>(place) == resource.group && std::get<1>(place) == resource.plural &&
        matches(stored.object, selector))
      list.items.push_back(stored.object);
  return list;
}

Result<Object> ObjectStore::create(const Resource& resource, const Object& object) {
  const std::lock_guard lock(mutex_);
  if (objects_.contains(place_of(resource, object)))
    return Status(Code::kAlreadyExists,
                  resource.plural + " \"" + meta(object, "name") + "\" already exists");
  Stored stored;
  stored.owners.note_update(Object::object(), object, kUs + "/Update");
  Object made = object;
  if (has_status(resource)) made.erase("status");
  return add(resource, std::move(made), std::move(stored));
}

Result<Object> ObjectStore::replace(const Resource& resource, const Object& object) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(resource, object);
  const auto found = objects_.find(place);
  if (found == objects_.end()) return not_found(resource, meta(object, "name"));
  const std::string version = meta(object, "resourceVersion");
  if (!version.empty() && version != meta(found->second.object, "resourceVersion"))
    return Status(Code::kFailedPrecondition,
                  "the object has been modified; please apply your changes to the latest version");
  Object next = object;
  keep_server_fields(next, found->second.object);
  keep_status(resource, next, found->second.object);
  found->second.owners.note_update(found->second.object, next, kUs + "/Update");
  return settle(place, found->second, std::move(next));
}

Result<Object> ObjectStore::apply(const Resource& resource, const Object& object,
                                  const std::string& subresource) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(resource, object);
  const auto found = objects_.find(place);
  Object wanted = object;
  for (const char* key : {"uid", "resourceVersion", "generation", "managedFields"})
    wanted["metadata"].erase(key);
  if (subresource.empty() && has_status(resource)) wanted.erase("status");
  if (!subresource.empty()) wanted = Object{{"status", object.value("status", Object::object())}};
  if (found == objects_.end()) {
    if (!subresource.empty()) return not_found(resource, meta(object, "name"));
    Object made;
    Stored stored;
    stored.owners.apply(made, wanted, kUs + "/Apply/");
    return add(resource, std::move(made), std::move(stored));
  }
  Object next = found->second.object;
  found->second.owners.apply(next, wanted, kUs + "/Apply/" + subresource);
  keep_server_fields(next, found->second.object);
  return settle(place, found->second, std::move(next));
}

Result<Object> ObjectStore::merge(const Resource& resource, const std::string& ns,
                                  const std::string& name, const Object& patch) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(resource, ns, name);
  const auto found = objects_.find(place);
  if (found == objects_.end()) return not_found(resource, name);
  const std::string version = meta(patch, "resourceVersion"), uid = meta(patch, "uid");
  if ((!version.empty() && version != meta(found->second.object, "resourceVersion")) ||
      (!uid.empty() && uid != meta(found->second.object, "uid")))
    return Status(Code::kFailedPrecondition,
                  "the object has been modified; please apply your changes to the latest version");
  Object next = found->second.object;
  next.merge_patch(patch);
  keep_server_fields(next, found->second.object);
  keep_status(resource, next, found->second.object);
  found->second.owners.note_update(found->second.object, next, kUs + "/Update");
  return settle(place, found->second, std::move(next));
}

Status ObjectStore::remove(const Resource& resource, const std::string& ns, const std::string& name,
                           const std::string& uid) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(resource, ns, name);
  const auto found = objects_.find(place);
  if (found == objects_.end()) return {};
  if (!uid.empty() && uid != meta(found->second.object, "uid"))
    return {Code::kFailedPrecondition, "Precondition failed: UID in precondition: " + uid};
  end(place);
  return {};
}

std::vector<WatchEvent> ObjectStore::events_since(const Resource& resource,
                                                  const Selector& selector,
                                                  std::uint64_t& version) const {
  std::vector<WatchEvent> events;
  const auto first = std::ranges::upper_bound(changes_, version, {}, &Change::version);
  for (auto change = first; change != changes_.end(); ++change) {
    version = change->version;
    if (std::get<0>(change->place) != resource.group ||
        std::get<1>(change->place) != resource.plural)
      continue;
    const bool was = change->before && matches(*change->before, selector);
    const bool is = change->after && matches(*change->after, selector);
    if (is)
      events.push_back(
          {was ? WatchEvent::Type::kModified : WatchEvent::Type::kAdded, *change->after});
    if (!was || is) continue;
    Object last = change->after ? *change->after : *change->before;
    last["metadata"]["resourceVersion"] = std::to_string(change->version);
    events.push_back({WatchEvent::Type::kDeleted, std::move(last)});
  }
  return events;
}

Status ObjectStore::watch(const Resource& resource, const Selector& selector,
                          const std::string& from, std::stop_token stop,
                          const std::function<void(WatchEvent)>& on_event) {
  std::unique_lock lock(mutex_);
  std::uint64_t version = from.empty() ? version_ : std::stoull(from);
  const std::uint64_t cuts = cuts_;
  if (version < oldest_) return {Code::kOutOfRange, "too old resource version"};
  while (!stop.stop_requested() && cuts == cuts_) {
    const std::vector<WatchEvent> events = events_since(resource, selector, version);
    lock.unlock();
    for (const WatchEvent& event : events) on_event(event);
    lock.lock();
    const auto news = [&] {
      return cuts != cuts_ || (!changes_.empty() && changes_.back().version > version);
    };
    changed_.wait(lock, stop, news);
  }
  return {};
}

Object ObjectStore::as_user(const Resource& resource, const Object& object) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(resource, object);
  const auto found = objects_.find(place);
  if (found == objects_.end()) {
    Stored stored;
    stored.owners.note_update(Object::object(), object, "user/Update");
    return add(resource, object, std::move(stored));
  }
  Object next = found->second.object;
  next.merge_patch(object);
  keep_server_fields(next, found->second.object);
  if (object.contains("metadata") && object["metadata"].contains("deletionTimestamp"))
    next["metadata"]["deletionTimestamp"] = object["metadata"]["deletionTimestamp"];
  found->second.owners.note_update(found->second.object, next, "user/Update");
  return settle(place, found->second, std::move(next));
}

void ObjectStore::delete_as_user(const Resource& resource, const std::string& ns,
                                 const std::string& name) {
  const std::lock_guard lock(mutex_);
  end(place_of(resource, ns, name));
}

std::size_t ObjectStore::collect_garbage() {
  const std::lock_guard lock(mutex_);
  const auto lives = [this](const Object& reference) {
    return std::ranges::any_of(objects_, [&](const auto& one) {
      return meta(one.second.object, "uid") == reference.value("uid", "");
    });
  };
  std::size_t gone = 0;
  for (bool again = true; again;) {
    again = false;
    for (const auto& [place, stored] : objects_) {
      const Object owners = stored.object["metadata"].value("ownerReferences", Object::array());
      if (owners.empty() || std::ranges::any_of(owners, lives)) continue;
      erase(Place(place));
      ++gone;
      again = true;
      break;
    }
  }
  return gone;
}

void ObjectStore::set_defaulting(std::function<void(Object&)> defaulting) {
  const std::lock_guard lock(mutex_);
  defaulting_ = std::move(defaulting);
}
void ObjectStore::cut_watches() {
  const std::lock_guard lock(mutex_);
  ++cuts_;
  changed_.notify_all();
}
void ObjectStore::forget_versions() {
  const std::lock_guard lock(mutex_);
  oldest_ = ++version_;
  ++cuts_;
  changed_.notify_all();
}

std::optional<Object> ObjectStore::find(const Resource& resource, const std::string& ns,
                                        const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(place_of(resource, ns, name));
  return found == objects_.end() ? std::nullopt : std::optional(found->second.object);
}
std::vector<Object> ObjectStore::all(const Resource& resource, const std::string& ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> objects;
  for (const auto& [place, stored] : objects_)
    if (std::get<0>(place) == resource.group && std::get<1>(place) == resource.plural &&
        (ns.empty() || std::get<2>(place) == ns))
      objects.push_back(stored.object);
  return objects;
}

}  // namespace larder::operator_test
