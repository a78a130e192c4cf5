// The result of an injection as a short text: the difference from the usual injection, for the
// tables of tests/golden/inject.
//
// Pure; thread-safe. Two results of one pod that differ give two different objects.
#pragma once

#include "operator/webhook/inject/inject.h"

namespace larder::test {

// The pod of tests/golden/inject/usual.in.yaml, and the same pod with its cache.
struct UsualPod {
  api::Object before;
  api::Object after;
};

// - A string: "passed by".
// - {"not injected": REASON}: the pod keeps everything and gets the annotation with that reason.
// - Otherwise the changes of the pod, without the changes of the usual pod. A field that the
//   injection does not touch is absent. Null: the usual injection changes this field, this one does
//   not. "gone": the injection removes the field. `container`: the fields of the engine, if the pod
//   has one container. A list of named elements stands there whole. "same NAME": the pod's own
//   element. "usual NAME": the usual pod's new element. {same: NAME, FIELD: VALUE} and {usual:
//   NAME, FIELD: VALUE}: that element, with other fields.
api::Object result_of(const api::Object& before, const webhook::Injection& injection,
                      const UsualPod& usual);

}  // namespace larder::test
