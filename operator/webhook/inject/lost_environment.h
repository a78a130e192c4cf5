// What takes away the environment or the groups that a container gives its engine.
//
// vLLM finds Larder's package by PYTHONPATH and larderd by LARDER_SOCKET; larderd's group lets it
// use that socket. Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace larder::webhook {

// The first of the words in front of an engine's flags, or of a shell's script, that takes
// something away, as "env -i"; "" where all stays.
std::string environment_lost(std::span<const std::optional<std::string>> argv);

}  // namespace larder::webhook
