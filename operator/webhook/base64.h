// Base64 of RFC 4648, as Secrets and patches carry it. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace larder::webhook {

std::string to_base64(std::string_view bytes);
// Nothing where it is none: other characters, a wrong length, bits left over.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace larder::webhook
