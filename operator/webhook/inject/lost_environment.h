// Programs that remove environment or groups of the container before the engine starts.
//
// vLLM finds Larder's package by PYTHONPATH and larderd by LARDER_SOCKET, and needs larderd's group
// for the socket. Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace larder::webhook {

// The first word in front of an engine's flags, or of a shell's script, that removes a variable or
// a group, such as "env -i"; "": none.
std::string environment_lost(std::span<const std::optional<std::string>> argv);

}  // namespace larder::webhook
