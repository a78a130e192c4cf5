// short_hash: 16 hex digits of a text, the same in every build. An attacker can make two texts
// collide. Use the hash to notice changes, never for secrets or to separate tenants.
#pragma once

#include <string>
#include <string_view>

namespace larder::desired {

std::string short_hash(std::string_view text);

}  // namespace larder::desired
