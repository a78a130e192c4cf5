// A reference page of metrics, made from the metrics: a table of names, types, units, labels with
// values, and meanings.
//
// The input is the text exposition format, so --metrics-reference of larderd and of the operator
// share the code. Pure; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace larder::http {

// A label without a constant list of values: a description of the values, and of their bound.
struct OpenLabel {
  std::string_view name;
  std::string_view values;
};

// Returns Markdown. Families keep the order of the exposition; values of a label are sorted.
std::string metrics_table(std::string_view exposition, std::span<const OpenLabel> open);

}  // namespace larder::http
