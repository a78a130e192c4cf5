// What to do about what `larderctl backend check` finds, in the fields of a CacheBackend. Pure; thread-safe.
#pragma once

#include <string>

namespace larder::reconcile {

// `otherwise`: the cure in larderd's own words, where it is about the server and no field of ours.
std::string remedy_for_backend(const std::string& id, const std::string& otherwise);

}  // namespace larder::reconcile
