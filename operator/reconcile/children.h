// Children: brings the objects of one owner to the wanted state: observe, plan (plan.h), apply.
//
// Thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/reconcile/plan.h"

namespace larder::reconcile {

// Caches of owned_kinds(), by plural. The caches show only objects with the label managed-by of
// Larder.
using ChildCaches = std::map<std::string, const k8s::Cache*>;

struct Brought {
  Status status;                   // the first failed call; later calls were made
  std::vector<std::string> taken;  // Plan::taken
  bool waiting = false;
  std::size_t writes = 0;
};

inline void keep_first(Status& first, const Status& status) {
  if (first.ok() && !status.ok()) first = status;
}

// Before bring() creates an object that no cache shows, bring() asks the API server: the object may
// exist without the label and belong to another owner. Keeps no reference to `client`.
Brought bring(k8s::ApiClient& client, const ChildCaches& caches, const Owner& owner,
              const std::vector<api::Object>& desired);

// The objects in `caches` whose controller is `owner`.
std::vector<k8s::ObjectPtr> children_of(const ChildCaches& caches, const Owner& owner);

}  // namespace larder::reconcile
