// `kubectl larder why POD`: the findings of one pod, as text and as JSON. Pure; thread-safe.
#pragma once

#include <string>

#include "operator/api/object.h"
#include "operator/kubectl/diagnostic.h"
#include "operator/kubectl/pod_state.h"

namespace larder::kubectl {

std::string why_text(const PodState& pod, const Findings& findings);
std::string why_json(const PodState& pod, const Findings& findings);

// "! Reason: text" with the remedy on the next line, indented by `indent`; and the same as JSON.
std::string finding_text(const Diagnostic& finding, std::size_t indent);
api::Object findings_json(const Findings& findings);
// Always valid UTF-8, with a final newline.
std::string json_text(const api::Object& object);

}  // namespace larder::kubectl
