// `kubectl larder why POD`: the findings of one pod, in words and as JSON. Pure; thread-safe.
#pragma once

#include <string>

#include "operator/api/object.h"
#include "operator/kubectl/diagnostic.h"
#include "operator/kubectl/pod_state.h"

namespace larder::kubectl {

std::string why_text(const PodState& pod, const Findings& findings);
std::string why_json(const PodState& pod, const Findings& findings);

// "! Reason: what" and below it what to do, indented by `indent`; and the same as JSON.
std::string finding_text(const Diagnostic& finding, std::size_t indent);
api::Object findings_json(const Findings& findings);
// Valid UTF-8 whatever is in it, with a line's end.
std::string json_text(const api::Object& object);

}  // namespace larder::kubectl
