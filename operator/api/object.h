// Object: a Kubernetes object, or a part of one, as JSON. The only include of nlohmann/json in the
// operator.
//
// Use the accessors below for objects that users or other controllers wrote. The accessors never
// throw; at() and get<>() of nlohmann do.
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

// Bounds of parse_json(). Objects of an API server have at most 3 MiB.
inline constexpr int kMostDepth = 64;
inline constexpr std::size_t kMostBytes = 8u << 20;

// Parses UTF-8 JSON of at most kMostBytes and kMostDepth. kInvalidArgument: the error has the
// place.
Result<Object> parse_json(std::string_view text);

// The value of a key, or null.
const Object& child(const Object& object, std::string_view key);
// The value at a path of object keys ("spec.memory.size"), or null. A path cannot name a key with
// dots.
const Object& at(const Object& object, std::string_view path);
// The value as a string, a number or a truth value. Empty or `otherwise` for a missing value or
// another type.
std::string text_at(const Object& object, std::string_view path);
std::int64_t number_at(const Object& object, std::string_view path, std::int64_t otherwise = 0);
bool truth_at(const Object& object, std::string_view path, bool otherwise = false);

// metadata.name, metadata.namespace, and annotations and labels, whose keys have dots.
std::string name_of(const Object& object);
std::string namespace_of(const Object& object);
std::optional<std::string> annotation(const Object& object, std::string_view key);
std::optional<std::string> label(const Object& object, std::string_view key);

// A quantity as text. A user may write "8Gi" or the number 8589934592. Empty for other types.
std::string quantity_text(const Object& value);
// A Kubernetes quantity ("8Gi", "1.5Gi", "500M", "1e9") in bytes, rounded up. kInvalidArgument for
// another text, a negative number, or a number above 2^63.
Result<std::uint64_t> quantity_bytes(std::string_view text);
// A Kubernetes quantity ("100m", "0.5") in thousandths, e.g. of processors.
Result<std::uint64_t> quantity_milli(std::string_view text);

}  // namespace larder::api
