#include "tests/unit/operator/owned_fields.h"

#include <algorithm>

namespace larder::operator_test {
namespace {

using api::Object;

// The fields by which the items of a list are told apart; empty: the list is one value.
std::vector<std::string> keys_of(const std::string& list) {
  static const std::map<std::string, std::vector<std::string>> kKeys{
      {"conditions", {"type"}},
      {"containers", {"name"}},
      {"initContainers", {"name"}},
      {"volumes", {"name"}},
      {"env", {"name"}},
      {"imagePullSecrets", {"name"}},
      {"volumeMounts", {"mountPath"}},
      {"ownerReferences", {"uid"}},
      {"webhooks", {"name"}},
      {"ports", {"containerPort", "port", "protocol"}}};
  const auto found = kKeys.find(list);
  return found == kKeys.end() ? std::vector<std::string>{} : found->second;
}

// "[name=larder]"; empty: this item has no key.
std::string item_step(const std::string& list, const Object& item) {
  std::string step;
  for (const std::string& key : keys_of(list)) {
    if (!item.is_object()) return "";
    const auto found = item.find(key);
    if (key == "protocol" && found == item.end()) step += ",protocol=\"TCP\"";
    if (found != item.end()) step += (step.empty() ? "" : ",") + key + "=" + found->dump();
  }
  return step.empty() ? "" : "[" + step + "]";
}

bool is_keyed(const std::string& list, const Object& value) {
  return value.is_array() && !keys_of(list).empty() &&
         std::ranges::all_of(value,
                             [&](const Object& item) { return !item_step(list, item).empty(); });
}

Object* item_of(Object& list, const std::string& name, const std::string& step) {
  for (Object& item : list)
    if (item_step(name, item) == step) return &item;
  return nullptr;
}

void collect(const Object& value, FieldPath& path, std::set<FieldPath>& fields) {
  const std::string name = path.empty() ? "" : path.back();
  const auto below = [&](const std::string& step, const Object& child) {
    path.push_back(step);
    collect(child, path, fields);
    path.pop_back();
  };
  if (value.is_object() && !value.empty()) {
    if (name.starts_with("[")) fields.insert(path);
    for (const auto& [key, child] : value.items()) below(key, child);
    return;
  }
  if (!is_keyed(name, value) || value.empty()) {
    if (!path.empty()) fields.insert(path);
    return;
  }
  for (const Object& item : value) below(item_step(name, item), item);
}

void merge_into(Object& live, const Object& wanted, const std::string& name) {
  if (wanted.is_object() && live.is_object()) {
    for (const auto& [key, child] : wanted.items()) merge_into(live[key], child, key);
  } else if (is_keyed(name, wanted) && is_keyed(name, live)) {
    // In the order of the desired object; others' items come behind.
    Object merged = Object::array();
    for (const Object& item : wanted) {
      const Object* found = item_of(live, name, item_step(name, item));
      merged.push_back(found == nullptr ? item : *found);
      if (found != nullptr) merge_into(merged.back(), item, "");
    }
    for (const Object& item : live)
      if (item_of(merged, name, item_step(name, item)) == nullptr) merged.push_back(item);
    live = std::move(merged);
  } else {
    live = wanted;
  }
}

// True: `value` is empty now, and may go itself.
bool erase(Object& value, const FieldPath& path, std::size_t at) {
  if (at == path.size()) return true;
  const std::string& step = path[at];
  if (value.is_array() && at > 0 && step.starts_with("[")) {
    for (auto item = value.begin(); item != value.end(); ++item) {
      if (item_step(path[at - 1], *item) != step) continue;
      if (at + 1 == path.size())
        value.erase(item);
      else
        erase(*item, path, at + 1);
      break;
    }
    return value.empty();
  }
  if (!value.is_object() || !value.contains(step)) return false;
  if (erase(value[step], path, at + 1)) value.erase(step);
  return value.empty();
}

const Object* find(const Object& value, const FieldPath& path) {
  const Object* here = &value;
  for (std::size_t at = 0; at < path.size(); ++at) {
    const std::string& step = path[at];
    if (here->is_array() && at > 0) {
      const auto item = std::ranges::find_if(
          *here, [&](const Object& one) { return item_step(path[at - 1], one) == step; });
      if (item == here->end()) return nullptr;
      here = &*item;
    } else if (here->is_object() && here->contains(step)) {
      here = &(*here)[step];
    } else {
      return nullptr;
    }
  }
  return here;
}

// Of an item of a list: its identifying fields stay as long as the item does.
bool is_key(const FieldPath& path) {
  if (path.size() < 2 || !path[path.size() - 2].starts_with("[")) return false;
  const std::string& item = path[path.size() - 2];
  return item.starts_with("[" + path.back() + "=") ||
         item.find("," + path.back() + "=") != std::string::npos;
}

bool begins_with(const FieldPath& path, const FieldPath& with) {
  return path.size() >= with.size() && std::equal(with.begin(), with.end(), path.begin());
}

}  // namespace

std::set<FieldPath> fields_of(const Object& object) {
  std::set<FieldPath> fields;
  FieldPath path;
  collect(object, path, fields);
  return fields;
}

bool OwnedFields::owned_below(const FieldPath& path) const {
  return std::ranges::any_of(fields_, [&](const auto& owner) {
    const auto first = owner.second.lower_bound(path);
    return first != owner.second.end() && begins_with(*first, path);
  });
}

void OwnedFields::apply(Object& live, const Object& wanted, const std::string& owner) {
  std::set<FieldPath> before = std::move(fields_[owner]);
  fields_[owner] = fields_of(wanted);
  merge_into(live, wanted, "");
  // A list's item comes before its fields, and goes whole when no owner is left.
  for (const FieldPath& path : before)
    if (!owned_below(path) && !is_key(path)) erase(live, path, 0);
}

void OwnedFields::note_update(const Object& before, const Object& after, const std::string& owner) {
  for (const FieldPath& path : fields_of(before))
    if (find(after, path) == nullptr)
      for (auto& [other, fields] : fields_) fields.erase(path);
  for (const FieldPath& path : fields_of(after)) {
    const Object* was = find(before, path);
    if (was != nullptr && (*was == *find(after, path) || path.back().starts_with("["))) continue;
    for (auto& [other, fields] : fields_) fields.erase(path);
    fields_[owner].insert(path);
  }
}

}  // namespace larder::operator_test
