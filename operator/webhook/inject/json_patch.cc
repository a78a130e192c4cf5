#include "operator/webhook/inject/json_patch.h"

#include <algorithm>

namespace larder::webhook {
namespace {

using api::Object;

// A key as one token of a JSON pointer (RFC 6901).
// One pass over the characters: two replacements in a row would have to escape ~ before /.
std::string escaped(std::string_view key) {
  std::string token;
  for (const char c : key) {
    if (c == '~')
      token += "~0";
    else if (c == '/')
      token += "~1";
    else
      token += c;
  }
  return token;
}

// A removal has no value; `null` is a value.
void say(Object& patch, const char* op, const std::string& path, const Object* value) {
  Object step = {{"op", op}, {"path", path}};
  if (value != nullptr) step["value"] = *value;
  patch.push_back(std::move(step));
}

void differ(Object& patch, const std::string& path, const Object& before, const Object& after);

// Removals first: the paths of later steps do not depend on them in an object.
void differ_in_members(Object& patch, const std::string& path, const Object& before,
                       const Object& after) {
  for (const auto& [key, value] : before.items())
    if (!after.contains(key)) say(patch, "remove", path + "/" + escaped(key), nullptr);
  for (const auto& [key, value] : after.items()) {
    const std::string member = path + "/" + escaped(key);
    if (const auto old = before.find(key); old == before.end())
      say(patch, "add", member, &value);
    else
      differ(patch, member, *old, value);
  }
}

// Keeps the common start and end. Compares the middle pair by pair, and adds or removes the rest.
void differ_in_elements(Object& patch, const std::string& path, const Object& before,
                        const Object& after) {
  const std::size_t shorter = std::min(before.size(), after.size());
  std::size_t same_first = 0, same_last = 0;
  while (same_first < shorter && before[same_first] == after[same_first]) ++same_first;
  while (same_last < shorter - same_first &&
         before[before.size() - 1 - same_last] == after[after.size() - 1 - same_last])
    ++same_last;
  const std::size_t pairs = shorter - same_first - same_last;
  const std::size_t after_pairs = same_first + pairs;
  for (std::size_t at = same_first; at < after_pairs; ++at)
    differ(patch, path + "/" + std::to_string(at), before[at], after[at]);
  // From the end, so the indexes of the elements in front stay valid.
  for (std::size_t at = before.size() - same_last; at-- > after_pairs;)
    say(patch, "remove", path + "/" + std::to_string(at), nullptr);
  for (std::size_t at = after_pairs; at + same_last < after.size(); ++at)
    say(patch, "add", path + "/" + std::to_string(at), &after[at]);
}

void differ(Object& patch, const std::string& path, const Object& before, const Object& after) {
  // 1 and 1.0 are equal in nlohmann/json and differ in the bytes of the pod.
  if (before == after && before.type() == after.type()) return;
  if (before.is_object() && after.is_object()) return differ_in_members(patch, path, before, after);
  if (before.is_array() && after.is_array()) return differ_in_elements(patch, path, before, after);
  say(patch, "replace", path, &after);
}

}  // namespace

Object diff(const Object& before, const Object& after) {
  Object patch = Object::array();
  differ(patch, "", before, after);
  return patch;
}

}  // namespace larder::webhook
