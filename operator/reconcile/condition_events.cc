#include "operator/reconcile/condition_events.h"

#include "operator/reconcile/conditions.h"

namespace larder::reconcile {

// Events only for changes of Ready: a reconcile runs every 30 s, and its repeated result is no
// news.
std::optional<k8s::Event> event_of_change(const k8s::Resource& resource, const api::Object& object,
                                          const api::Object& status) {
  constexpr const char* kReady = "Ready";
  const api::Object after{{"status", status}};
  const Truth was = truth_of(object, kReady), is = truth_of(after, kReady);
  const std::string reason = reason_of(after, kReady);
  const bool recovered = was == Truth::kFalse && is == Truth::kTrue;
  // Another reason of a pool that was not ready already is news, too.
  const bool fails =
      is == Truth::kFalse && (was != Truth::kFalse || reason_of(object, kReady) != reason);
  if (!recovered && !fails) return {};
  return k8s::Event{
      k8s::reference_to(resource, object), fails ? "Warning" : "Normal", fails ? reason : kReady,
      "Reconciling",
      // The Event of a recovery names the trouble that is over, since the condition of now no
      // longer does.
      (fails ? "" : reason_of(object, kReady) + " is over: ") + message_of(after, kReady)};
}

}  // namespace larder::reconcile
