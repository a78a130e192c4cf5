#include "operator/kubectl/table.h"

#include <algorithm>

#include "sidecar/base/text.h"

namespace larder::kubectl {

// Widths in columns of the terminal, not in bytes: names may have characters beyond ASCII. The last
// column is not padded.
std::string table_text(const std::vector<Row>& rows) {
  constexpr std::size_t kBetween = 3;
  std::vector<std::size_t> widths(rows.empty() ? 0 : rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], base::width(row[i]));
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] + kBetween - base::width(row[i]), ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace larder::kubectl
