// What a user left out is in no object: an empty field would differ from what the API server keeps of it, at every look.
#pragma once

#include <string>
#include <string_view>

#include "operator/api/object.h"

namespace larder::desired {

inline void set_if(api::Object& object, std::string_view key, const api::Object& value) {
  const bool empty = value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
  if (!empty) object[std::string(key)] = value;
}

}  // namespace larder::desired
