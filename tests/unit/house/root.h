// The repository that the house tests read.
#pragma once

#include <filesystem>

namespace larder::house {

inline const std::filesystem::path kRoot = REPOSITORY_ROOT;

}  // namespace larder::house
