// Object: a Kubernetes object, or a part of one, as JSON. The one door to nlohmann/json in the operator.
//
// Reading what a stranger wrote goes through the accessors below, which never throw: nlohmann's own at() and get<>() do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "shim/base/status.h"

namespace larder::api {

using Object = nlohmann::json;

// The deepest nesting and the most bytes that are parsed: the API server's own objects have at most 3 MiB.
inline constexpr int kMostDepth = 64;
inline constexpr std::size_t kMostBytes = 8u << 20;

// Valid UTF-8 JSON of at most kMostBytes and kMostDepth; kInvalidArgument with the place otherwise.
Result<Object> parse_json(std::string_view text);

// What stands below a key, or null.
const Object& child(const Object& object, std::string_view key);
// What stands at a path of object keys ("spec.memory.size"; a key that has dots itself cannot be named so), or null.
const Object& at(const Object& object, std::string_view path);
// The same as a string or a number; empty, `otherwise` where it is something else or not there.
std::string text_at(const Object& object, std::string_view path);
std::int64_t number_at(const Object& object, std::string_view path, std::int64_t otherwise = 0);
bool truth_at(const Object& object, std::string_view path, bool otherwise = false);

// metadata.NAME, and annotations and labels, whose keys have dots.
std::string name_of(const Object& object);
std::string namespace_of(const Object& object);
std::optional<std::string> annotation(const Object& object, std::string_view key);
std::optional<std::string> label(const Object& object, std::string_view key);

// A quantity as a user may write it, as text: "8Gi", or the number 8589934592. Empty where it is neither text nor a number.
std::string quantity_text(const Object& value);
// A Kubernetes quantity ("8Gi", "1.5Gi", "500M", "1e9") in bytes; a part of a byte counts as one. kInvalidArgument where it is
// none, is negative or above 2^63.
Result<std::uint64_t> quantity_bytes(std::string_view text);
// The same in thousandths ("100m", "0.5"): of processors, say.
Result<std::uint64_t> quantity_milli(std::string_view text);

}  // namespace larder::api
