// Base64 of RFC 4648, the encoding of Secrets and patches. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace larder::api {

std::string to_base64(std::string_view bytes);
// Empty optional for invalid Base64: foreign characters, a wrong length, bits left over.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace larder::api
