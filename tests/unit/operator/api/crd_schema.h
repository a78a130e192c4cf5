// A definition of charts/larder/files/crds, read for tests: the fields of its schema in the form of
// the parser's own report.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/api/spec_reader.h"

namespace larder::test {

// charts/larder/files/crds/larder.dev_PLURAL.yaml.
api::Object read_crd(const std::string& plural);
// The schema of the definition's one version.
const api::Object& schema_of(const api::Object& crd);

// Every field of spec, without fields below those in `whole`, which the parser hands on unchanged.
// By path.
std::vector<api::SpecField> fields_of(const api::Object& schema,
                                      const std::set<std::string>& whole);

// "PATH: has no description" for each field without a text for kubectl explain.
std::vector<std::string> undescribed(const api::Object& schema);

}  // namespace larder::test
