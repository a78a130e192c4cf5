// SpecReader: takes the fields of a spec one by one, checks each and fills in its default. The first wrong one is kept and named.
//
// It notes what it was asked for, so that a test can compare parser and CRD field by field. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/object.h"
#include "shim/base/status.h"

namespace larder::api {

struct SpecField {
  std::string path;                  // "spec.memory.size"
  std::string type;                  // string, integer, boolean, array, object, quantity
  std::string otherwise;             // its default as text; empty: none
  std::vector<std::string> allowed;  // of an enumeration
};

class SpecReader {
 public:
  // `object`: with a spec; outlives the reader. `describing`: sections count as present, and nothing is refused.
  explicit SpecReader(const Object& object, bool describing = false) : object_(object), describing_(describing) {}

  // Whether a section is there.
  bool has(std::string_view path) const;

  std::string text(std::string_view path, std::string_view otherwise = "");
  // At least one character, or refused.
  std::string needed_text(std::string_view path);
  // One of `allowed`; the index in it. `otherwise` is one of them.
  std::size_t choice(std::string_view path, std::span<const std::string_view> allowed, std::string_view otherwise);
  std::int64_t number(std::string_view path, std::int64_t least, std::int64_t most, std::int64_t otherwise);
  bool truth(std::string_view path, bool otherwise);
  std::vector<std::string> texts(std::string_view path);
  // A map or a list handed on as it is; null where it is not there.
  Object map(std::string_view path);
  Object list(std::string_view path);

  struct Size {
    std::string text;
    std::uint64_t bytes = 0;
  };
  // A quantity from `least` to `most` bytes, as text or as a number. `otherwise` empty: it must be there.
  Size size(std::string_view path, std::uint64_t least, std::uint64_t most, std::string_view otherwise = "");
  // "0" or a number with s, m, h or d: as larderd writes durations.
  std::string duration(std::string_view path);

  // Notes that the field at `path` is wrong, unless another was before.
  void refuse(std::string_view path, std::string_view why);

  const Status& status() const { return status_; }
  const std::vector<SpecField>& fields() const { return fields_; }

 private:
  const Object& found(std::string_view path, std::string_view type, std::string_view otherwise, bool (*is)(const Object& value));

  const Object& object_;
  const bool describing_;
  Status status_;
  std::vector<SpecField> fields_;
};

}  // namespace larder::api
