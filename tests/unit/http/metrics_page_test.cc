#include "sidecar/http/metrics_page.h"

#include <gtest/gtest.h>

namespace larder::http {
namespace {

TEST(MetricsPageTest, PageListsNamesTypesUnitsLabelsAndMeanings) {
  const std::string exposition =
      "# HELP a_bytes_total Bytes that came.\n# TYPE a_bytes_total counter\n"
      "a_bytes_total{tier=\"dram\",model=\"m\"} 1\na_bytes_total{tier=\"disk\",model=\"n\"} 2\n"
      "# HELP b_seconds How long.\n# TYPE b_seconds histogram\n"
      "b_seconds_count 0\nb_seconds_sum 0\nb_seconds_bucket{le=\"1\"} "
      "0\nb_seconds_bucket{le=\"+Inf\"} 0\n"
      "# HELP c Things.\n# TYPE c gauge\n";
  constexpr OpenLabel kOpen[] = {{"model", "served names, at most 32"}};
  EXPECT_EQ(metrics_table(exposition, kOpen),
            "| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n"
            "| `a_bytes_total` | counter | bytes | `tier`: `disk`, `dram`; `model`: served names, "
            "at most 32 | Bytes that came. |\n"
            "| `b_seconds` | histogram | seconds |  | How long. |\n"
            "| `c` | gauge |  |  | Things. |\n");
}

}  // namespace
}  // namespace larder::http
