// Children: brings the objects of one owner to what is wanted: observe, plan, apply. What plan.h decided is all that it does.
//
// Thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/reconcile/plan.h"

namespace larder::reconcile {

// Where objects of owned_kinds() are seen, by plural. They show what has the label managed-by of ours.
using ChildCaches = std::map<std::string, const k8s::Cache*>;

struct Brought {
  Status status;                   // the first call that failed; the others were made
  std::vector<std::string> taken;  // Plan::taken
  bool waiting = false;
  std::size_t writes = 0;
};

// `client` outlives nothing here. An object that no cache shows is asked for before it is made: it may be somebody else's.
Brought bring(k8s::ApiClient& client, const ChildCaches& caches, const Owner& owner, const std::vector<api::Object>& desired);

// What is there of `owner` (by controller), as `caches` show it.
std::vector<k8s::ObjectPtr> children_of(const ChildCaches& caches, const Owner& owner);

}  // namespace larder::reconcile
