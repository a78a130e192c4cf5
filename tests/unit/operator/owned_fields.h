// OwnedFields: server-side apply and who owns which field of one object, as much of the API server's rules as our objects need.
//
// Lists whose items have a key (containers, env, volumes, conditions ...) merge by it; all other lists are one value. Pure;
// thread-compatible.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::operator_test {

// Steps from the object's root: a key, or "[KEY=VALUE]" for the item of a list. One that ends in an item owns its being there.
using FieldPath = std::vector<std::string>;

std::set<FieldPath> fields_of(const api::Object& object);

class OwnedFields {
 public:
  // `wanted` by `owner`, forced: what he owned and wants no more goes, unless another owns it too.
  void apply(api::Object& live, const api::Object& wanted, const std::string& owner);
  // By PUT, POST or PATCH: what differs is his alone from now on.
  void note_update(const api::Object& before, const api::Object& after, const std::string& owner);
  const std::set<FieldPath>& of(const std::string& owner) { return fields_[owner]; }

 private:
  bool owned_below(const FieldPath& path) const;

  std::map<std::string, std::set<FieldPath>> fields_;
};

}  // namespace larder::operator_test
