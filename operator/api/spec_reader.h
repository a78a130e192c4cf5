// SpecReader: reads the fields of a spec one by one, checks each field, and fills in the default.
// status() names the first wrong field.
//
// The reader records each requested field, so that crd_test.cc can compare parser and CRD.
// Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/object.h"
#include "shim/base/status.h"

namespace larder::api {

// The words of every field imagePullPolicy.
inline constexpr std::array<std::string_view, 3> kPullPolicies{"Always", "IfNotPresent", "Never"};

struct SpecField {
  std::string path;                  // "spec.memory.size"
  std::string type;                  // string, integer, boolean, array, object, quantity
  std::string otherwise;             // default as text; empty: no default
  std::vector<std::string> allowed;  // values of an enumeration
};

class SpecReader {
 public:
  // `object` has a spec and outlives the reader. `describing`: every section counts as present, and
  // every value passes.
  explicit SpecReader(const Object& object, bool describing = false)
      : object_(object), describing_(describing) {}

  // Whether the spec has a section.
  bool has(std::string_view path) const;

  std::string text(std::string_view path, std::string_view otherwise = "");
  // Refuses an empty or missing text.
  std::string needed_text(std::string_view path);
  // Index of the value in `allowed`. `otherwise` is one of `allowed`.
  std::size_t choice(std::string_view path, std::span<const std::string_view> allowed,
                     std::string_view otherwise);
  std::int64_t number(std::string_view path, std::int64_t least, std::int64_t most,
                      std::int64_t otherwise);
  bool truth(std::string_view path, bool otherwise);
  std::vector<std::string> texts(std::string_view path);
  // A map or a list, unchanged; null: not given.
  Object map(std::string_view path);
  Object list(std::string_view path);

  struct Size {
    std::string text;
    std::uint64_t bytes = 0;
  };
  // A quantity from `least` to `most` bytes, as text or as a number. Empty `otherwise`: the field
  // is required.
  Size size(std::string_view path, std::uint64_t least, std::uint64_t most,
            std::string_view otherwise = "");
  // "0", or a number with s, m, h or d, the form of larderd's durations.
  std::string duration(std::string_view path);

  // Records the field at `path` as wrong. Only the first call has an effect. `why` says which text
  // to write instead.
  void refuse(std::string_view path, std::string_view why);

  const Status& status() const { return status_; }
  const std::vector<SpecField>& fields() const { return fields_; }

 private:
  const Object& found(std::string_view path, std::string_view type, std::string_view otherwise,
                      bool (*is)(const Object& value));

  const Object& object_;
  const bool describing_;
  Status status_;
  std::vector<SpecField> fields_;
};

}  // namespace larder::api
