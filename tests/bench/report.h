// Report: the output of a benchmark: a table, the goals, and NAME.json. Thread-compatible.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace larder::bench {

using Cell = std::variant<std::string, double>;
// column name and value; all rows of a report have the same columns
using Row = std::vector<std::pair<std::string, Cell>>;

double median(std::vector<double> values);
// p in 0..1. REQUIRES: values is not empty.
double percentile(std::vector<double> values, double p);

// A mark for a row whose ceiling or rival differs from that of the reference machine (2-core Debian
// 12 VM, see docs/performance/results.md): "" within a factor of two, else a few words.
std::string far_from_reference(double value, double reference);

class Report {
 public:
  explicit Report(std::string name) : name_(std::move(name)) {}

  void add_row(Row row) { rows_.push_back(std::move(row)); }
  // `id` is NAME.figure; `op` is "<=", "<" or ">=".
  void add_goal(std::string id, double value, std::string op, double goal) {
    goals_.push_back({std::move(id), value, std::move(op), goal});
  }

  // Prints the table and the goals, and writes DIRECTORY/NAME.json. A missed goal is not a failure.
  // False: the file cannot be written.
  bool finish(const std::string& directory) const;

 private:
  struct Goal {
    std::string id;
    double value;
    std::string op;
    double goal;
    bool met() const {
      return op == "<=" ? value <= goal : op == "<" ? value < goal : value >= goal;
    }
  };

  void print() const;
  std::string json() const;

  const std::string name_;
  std::vector<Row> rows_;
  std::vector<Goal> goals_;
};

}  // namespace larder::bench
