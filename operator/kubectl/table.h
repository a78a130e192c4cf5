// A table as kubectl prints one: columns as wide as their widest entry, three spaces between. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

namespace larder::kubectl {

using Row = std::vector<std::string>;

// REQUIRES: no row is longer than the first. Entries are printable; the last column is not filled up.
std::string table_text(const std::vector<Row>& rows);

}  // namespace larder::kubectl
