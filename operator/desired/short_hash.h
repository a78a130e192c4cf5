// short_hash: 16 hex digits that differ where texts do, the same in every build. For names and annotations, never for secrets.
#pragma once

#include <string>
#include <string_view>

namespace larder::desired {

std::string short_hash(std::string_view text);

}  // namespace larder::desired
