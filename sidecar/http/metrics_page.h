// A page about metrics, out of the metrics themselves: a table of names, types, units, labels with their values, meanings.
//
// Reads the text exposition format, so that whatever exports can be described, by larderd's and by the operator's
// --metrics-reference alike. Pure; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace larder::http {

// A label whose values are not a constant list: what they are, and why they are bounded.
struct OpenLabel {
  std::string_view name;
  std::string_view values;
};

// Markdown. Families in the order in which they come, values of a label by name.
std::string metrics_table(std::string_view exposition, std::span<const OpenLabel> open);

}  // namespace larder::http
