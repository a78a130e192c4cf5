// OwnedFields: server-side apply and the owner of each field of one object: the API server's rules
// as far as our objects need the rules.
//
// Lists whose items have a key (containers, env, volumes, conditions ...) merge by the key; all
// other lists are one value. Pure; thread-compatible.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::operator_test {

// Steps from the object's root: a key, or "[KEY=VALUE]" for the item of a list. A path that ends in
// an item owns the item's existence.
using FieldPath = std::vector<std::string>;

std::set<FieldPath> fields_of(const api::Object& object);

class OwnedFields {
 public:
  // `wanted` by `owner`, forced: fields that the owner no longer wants go, unless another owner has
  // the field too.
  void apply(api::Object& live, const api::Object& wanted, const std::string& owner);
  // By PUT, POST or PATCH: changed fields are this owner's alone from now on.
  void note_update(const api::Object& before, const api::Object& after, const std::string& owner);
  const std::set<FieldPath>& of(const std::string& owner) { return fields_[owner]; }

 private:
  bool owned_below(const FieldPath& path) const;

  std::map<std::string, std::set<FieldPath>> fields_;
};

}  // namespace larder::operator_test
