// A definition of charts/larder/files/crds, read for tests: its schema's fields in the form in which the parser tells its own.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/api/spec_reader.h"

namespace larder::test {

// charts/larder/files/crds/larder.dev_PLURAL.yaml.
api::Object read_crd(const std::string& plural);
// The schema of its one version.
const api::Object& schema_of(const api::Object& crd);

// Every field of spec, but nothing below those in `whole`, which the parser hands on as they are. By path.
std::vector<api::SpecField> fields_of(const api::Object& schema, const std::set<std::string>& whole);

// "PATH: has no description" for each field that kubectl explain would say nothing of.
std::vector<std::string> undescribed(const api::Object& schema);

}  // namespace larder::test
