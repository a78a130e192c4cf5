// short_hash: 16 hex digits, the same in every build; other ones for other texts, unless two texts were made to collide. For changes and
// annotations; never for secrets, nor where a collision would join two tenants.
#pragma once

#include <string>
#include <string_view>

namespace larder::desired {

std::string short_hash(std::string_view text);

}  // namespace larder::desired
