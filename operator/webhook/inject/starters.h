// Programs that start the program named after their options: env, timeout, numactl and the like.
//
// Each keeps the container's files. A program that changes them (chroot, bwrap, apptainer) is none
// of the list: vLLM would not find Larder's package there. Pure; thread-safe; never throws.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace larder::webhook {

// Whether the word is a program of the list.
bool is_starter(std::string_view word);

// The index of the program that the starter at `at` starts, after options, their values and
// operands; argv.size(): none is known. `knows` tells whether the program of an index is known.
// Profilers have many options whose values resemble programs. For these alone a value may be any
// word before a known program.
std::size_t started_by(std::span<const std::optional<std::string>> argv, std::size_t at,
                       bool (*knows)(std::span<const std::optional<std::string>>, std::size_t));

}  // namespace larder::webhook
