// Leaves empty fields out. The API server drops an empty field, so that every comparison would see
// a difference.
#pragma once

#include <string>
#include <string_view>

#include "operator/api/object.h"

namespace larder::desired {

inline void set_if(api::Object& object, std::string_view key, const api::Object& value) {
  const bool empty =
      value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
  if (!empty) object[std::string(key)] = value;
}

}  // namespace larder::desired
