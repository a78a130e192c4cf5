#include "operator/reconcile/objects_applied.h"

namespace larder::reconcile {

Condition objects_applied(const Brought& brought, const std::string& kind,
                          const std::string& objects) {
  const auto no = [](const char* reason, const std::string& why) {
    return Condition{"ObjectsApplied", Truth::kFalse, reason, why};
  };
  // The order is that of the remedies: only a user can free a taken name.
  if (!brought.taken.empty()) return no("NameTaken", brought.taken.front());
  if (!brought.status.ok())
    return no("Refused", brought.status.to_string() + ". The operator tries again");
  if (brought.waiting)
    return no("Waiting", "objects of an earlier " + kind + " of this name are still being deleted");
  return {"ObjectsApplied", Truth::kTrue, "Applied", objects + " are up to date"};
}

}  // namespace larder::reconcile
