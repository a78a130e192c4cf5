#include "tests/unit/operator/webhook/inject/golden_case.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/text_file.h"

namespace larder::test {
namespace {

using api::Object;
namespace fs = std::filesystem;

fs::path folder_in(const fs::path& repository) {
  return repository / "tests/golden/inject";
}

Object rows_of(const fs::path& table) {
  return from_yaml(text_of(table)).at(0);
}

// ".in", ".out" or ".change"; "" of a table.
std::string kind_of(const fs::path& file) {
  return file.stem().extension();
}

std::vector<fs::path> files_in(const fs::path& repository, const std::string& kind) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_in(repository)))
    if (entry.path().extension() == ".yaml" && kind_of(entry.path()) == kind)
      files.push_back(entry.path());
  return files;
}

GoldenCase case_of_file(const fs::path& folder, const std::string& name) {
  const fs::path change = folder / (name + ".change.yaml"), whole = folder / (name + ".out.yaml");
  const InjectionCase one = injection_case(text_of(folder / (name + ".in.yaml")));
  if (fs::exists(change)) return {name, change, GoldenCase::Form::kChange, one};
  return {name, whole, GoldenCase::Form::kWhole, one};
}

// `container`: the fields of the usual pod's container but name and image; `pod` is merged over the
// whole (RFC 7386).
InjectionCase case_of_row(const Object& row, Object pod) {
  Object& container = pod["spec"]["containers"][0];
  if (row.contains("container")) {
    container = {{"name", container["name"]}, {"image", container["image"]}};
    container.merge_patch(row["container"]);
  }
  if (row.contains("pod")) pod.merge_patch(row["pod"]);
  std::string objects = to_yaml(pod);
  for (const Object& object : api::child(row, "beside")) objects += "---\n" + to_yaml(object);
  return injection_case(objects);
}

}  // namespace

std::vector<std::string> golden_names(const fs::path& repository) {
  std::vector<std::string> names;
  for (const fs::path& in : files_in(repository, ".in")) names.push_back(in.stem().stem());
  for (const fs::path& table : files_in(repository, "")) {
    const Object rows = rows_of(table);
    for (const auto& [name, row] : rows.items()) names.push_back(name);
  }
  std::ranges::sort(names, {},
                    [](const std::string& name) { return std::pair(name != kUsualGolden, name); });
  return names;
}

GoldenCase golden_case(const fs::path& repository, const std::string& name) {
  if (fs::exists(folder_in(repository) / (name + ".in.yaml")))
    return case_of_file(folder_in(repository), name);
  for (const fs::path& table : files_in(repository, ""))
    if (const Object rows = rows_of(table); rows.contains(name))
      return {name, table, GoldenCase::Form::kRow,
              case_of_row(rows[name], usual_golden(repository).before)};
  throw std::runtime_error("no golden case " + name);
}

UsualPod usual_golden(const fs::path& repository) {
  const std::string path = (folder_in(repository) / kUsualGolden).string();
  return {from_yaml(text_of(path + ".in.yaml")).at(0),
          from_yaml(text_of(path + ".out.yaml")).at(0)};
}

Object row_result(const fs::path& table, const std::string& name) {
  const Object rows = rows_of(table);
  return api::child(api::child(rows, name), "result");
}

void write_row_result(const fs::path& table, const std::string& name, const Object& result) {
  const std::string before = text_of(table);
  Object rows = rows_of(table);
  rows[name]["result"] = result;
  std::string text;
  for (std::size_t at = 0; before.compare(at, 1, "#") == 0;) {
    const std::size_t end = before.find('\n', at) + 1;
    text += before.substr(at, end - at);
    at = end;
  }
  for (const auto& [key, row] : rows.items())
    text += "\n" + key + ":\n" + to_yaml(row, kGoldenColumns, 2);
  std::ofstream(table) << text;
}

}  // namespace larder::test
