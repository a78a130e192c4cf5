// A table in kubectl's form: columns as wide as their widest entry, with three spaces between.
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

namespace larder::kubectl {

using Row = std::vector<std::string>;

// REQUIRES: no row has more entries than the first, and entries are printable. The last column has
// no padding.
std::string table_text(const std::vector<Row>& rows);

}  // namespace larder::kubectl
