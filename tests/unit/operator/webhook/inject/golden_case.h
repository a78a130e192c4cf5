// The injector's golden cases, tests/golden/inject (its README describes their form): pods in files
// of their own, and pods that are rows of tables.
//
// Read anew by each call. Throws if a file has another form: for tests alone.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/operator/webhook/inject/injection_case.h"
#include "tests/unit/operator/webhook/inject/injection_change.h"

namespace larder::test {

// The pod that rows change, and that results are compared with.
inline constexpr const char* kUsualGolden = "usual";
// Of a line in a table.
inline constexpr std::size_t kGoldenColumns = 110;

struct GoldenCase {
  enum class Form { kWhole, kChange, kRow };  // NAME.out.yaml, NAME.change.yaml, the row's `result`

  std::string name;
  std::filesystem::path result;  // the file that the result stands in
  Form form = Form::kWhole;
  InjectionCase one;
};

// The usual pod first: results of others are written after it.
std::vector<std::string> golden_names(const std::filesystem::path& repository);
GoldenCase golden_case(const std::filesystem::path& repository, const std::string& name);

UsualPod usual_golden(const std::filesystem::path& repository);

// The result in the row `name` of a table; null: no such row.
api::Object row_result(const std::filesystem::path& table, const std::string& name);
// Writes the result into the row. Comments at the table's beginning stay.
void write_row_result(const std::filesystem::path& table, const std::string& name,
                      const api::Object& result);

}  // namespace larder::test
