// How larderd's answers and recorded traces are read: the only place of larderctl that knows nlohmann/json, included by snapshot.cc,
// report.cc, backend_report.cc, trace_file.cc and simulate.cc alone. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "shim/base/status.h"
#include "sidecar/base/text.h"

namespace larder::ctl {

// A whole number that is not negative: who answers may be no larderd, and of any other one there is no conversion.
inline std::uint64_t number_at(const nlohmann::json& object, const char* key) {
  return object.at(key).get_ref<const nlohmann::json::number_unsigned_t&>();
}
// The same of one that an older larderd does not tell: 0.
inline std::uint64_t number_if(const nlohmann::json& object, const char* key) {
  return object.contains(key) ? number_at(object, key) : 0;
}
// Printable: engines choose their names.
inline std::string text_at(const nlohmann::json& object, const char* key) {
  return base::printable(object.at(key).get<std::string>());
}

// What `read` makes of an answer. An error where that is no JSON, or lacks what is read.
template <typename Read>
auto understood(const std::string& body, Read read) -> Result<decltype(read(nlohmann::json()))> {
  try {
    return read(nlohmann::json::parse(body));
  } catch (const nlohmann::json::exception& error) {
    // It quotes the answer.
    return Status(Code::kInvalidArgument,
                  "larderd's answer is not understood (another version?): " + base::printable(error.what()));
  }
}

}  // namespace larder::ctl
