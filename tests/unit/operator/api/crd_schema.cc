#include "tests/unit/operator/api/crd_schema.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/unit/operator/api/yaml_object.h"

namespace larder::test {
namespace {

using api::Object;

std::string text_of(const Object& value) {
  return value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
}

void collect(const Object& schema, const std::string& path, const std::set<std::string>& whole,
             std::vector<api::SpecField>& fields) {
  const Object& properties = api::child(schema, "properties");
  const std::string type = api::text_at(schema, "type");
  if (type == "object" && properties.is_object() && !whole.contains(path)) {
    for (const auto& [name, property] : properties.items())
      collect(property, path + "." + name, whole, fields);
    return;
  }
  const bool quantity = api::truth_at(schema, "x-kubernetes-int-or-string");
  api::SpecField field{
      path, quantity ? "quantity" : type, text_of(api::child(schema, "default")), {}};
  for (const Object& one : api::child(schema, "enum")) field.allowed.push_back(text_of(one));
  fields.push_back(std::move(field));
}

void look_for_words(const Object& schema, const std::string& path,
                    std::vector<std::string>& without) {
  if (api::text_at(schema, "description").empty()) without.push_back(path + ": has no description");
  for (const auto& [name, property] : api::child(schema, "properties").items())
    look_for_words(property, path + "." + name, without);
  const Object& items = api::at(schema, "items.properties");
  for (const auto& [name, property] : items.items())
    look_for_words(property, path + "[]." + name, without);
}

}  // namespace

Object read_crd(const std::string& plural) {
  std::ifstream file(std::string(REPOSITORY_ROOT) + "/charts/larder/files/crds/larder.dev_" +
                     plural + ".yaml");
  std::stringstream text;
  text << file.rdbuf();
  return from_yaml(text.str()).at(0);
}

const Object& schema_of(const Object& crd) {
  return crd.at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema");
}

std::vector<api::SpecField> fields_of(const Object& schema, const std::set<std::string>& whole) {
  std::vector<api::SpecField> fields;
  collect(api::at(schema, "properties.spec"), "spec", whole, fields);
  std::ranges::sort(fields, {}, &api::SpecField::path);
  return fields;
}

std::vector<std::string> undescribed(const Object& schema) {
  std::vector<std::string> without;
  for (const char* part : {"spec", "status"})
    look_for_words(api::at(schema, std::string("properties.") + part), part, without);
  return without;
}

}  // namespace larder::test
