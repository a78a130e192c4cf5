// Reads the JSON of larderd and of recorded traces. The only user of nlohmann/json in larderctl;
// only .cc files that parse or print JSON include this header. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "shim/base/status.h"
#include "sidecar/base/text.h"

namespace larder::ctl {

// A non-negative integer. Other JSON numbers are an error and not converted: the answering process
// may be no larderd.
inline std::uint64_t number_at(const nlohmann::json& object, const char* key) {
  return object.at(key).get_ref<const nlohmann::json::number_unsigned_t&>();
}
// The same; 0 if the key is missing in the reply of an older larderd.
inline std::uint64_t number_if(const nlohmann::json& object, const char* key) {
  return object.contains(key) ? number_at(object, key) : 0;
}
// A printable text: engines choose names, and a terminal obeys control characters.
inline std::string text_at(const nlohmann::json& object, const char* key) {
  return base::printable(object.at(key).get<std::string>());
}

// The result of `read` on the parsed body. An error if the body is no JSON, or lacks a key.
template <typename Read>
auto understood(const std::string& body, Read read) -> Result<decltype(read(nlohmann::json()))> {
  try {
    return read(nlohmann::json::parse(body));
  } catch (const nlohmann::json::exception& error) {
    // error.what() quotes the reply, so it is made printable.
    return Status(
        Code::kInvalidArgument,
        "larderd's answer is not understood (another version?): " + base::printable(error.what()));
  }
}

}  // namespace larder::ctl
