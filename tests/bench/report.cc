#include "tests/bench/report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace larder::bench {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string shown(const Cell& cell) {
  return std::holds_alternative<double>(cell) ? number(std::get<double>(cell))
                                              : std::get<std::string>(cell);
}

// Our own names and the processor's: only quotes and backslashes need care.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string as_json(const Cell& cell) {
  return std::holds_alternative<double>(cell) ? number(std::get<double>(cell))
                                              : quoted(std::get<std::string>(cell));
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

// LARDER_COMMIT, which `make bench-NAME` sets. "-": not known.
std::string commit() {
  const char* told = std::getenv("LARDER_COMMIT");
  return told == nullptr || *told == '\0' ? "-" : told;
}

std::string machine() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, model = "unknown processor";
  while (std::getline(info, line))
    if (line.rfind("model name", 0) == 0) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  return model + ", " + std::to_string(std::thread::hardware_concurrency()) + " processors";
}

}  // namespace

double percentile(std::vector<double> values, double p) {
  const auto at = static_cast<std::ptrdiff_t>(p * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

double median(std::vector<double> values) {
  return percentile(std::move(values), 0.5);
}

void Report::print() const {
  std::vector<std::size_t> widths;
  for (const Row& row : rows_) {
    widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max({widths[i], row[i].first.size(), shown(row[i].second).size()});
  }
  const auto line = [&](const Row& row, bool head) {
    for (std::size_t i = 0; i < row.size(); ++i)
      std::printf("%s%*s", i == 0 ? "" : "  ", static_cast<int>(widths[i]),
                  (head ? row[i].first : shown(row[i].second)).c_str());
    std::printf("\n");
  };
  if (!rows_.empty()) line(rows_.front(), true);
  for (const Row& row : rows_) line(row, false);
  for (const Goal& goal : goals_)
    std::printf("%-28s %10s  goal %s %s  %s\n", goal.id.c_str(), number(goal.value).c_str(),
                goal.op.c_str(), number(goal.goal).c_str(), goal.met() ? "met" : "MISSED");
}

std::string Report::json() const {
  std::ostringstream out;
  out << "{\"name\": " << quoted(name_) << ", \"date\": " << quoted(today())
      << ", \"commit\": " << quoted(commit()) << ", \"machine\": " << quoted(machine())
      << ",\n \"rows\": [";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    out << (r == 0 ? "\n  {" : ",\n  {");
    for (std::size_t i = 0; i < rows_[r].size(); ++i)
      out << (i == 0 ? "" : ", ") << quoted(rows_[r][i].first) << ": "
          << as_json(rows_[r][i].second);
    out << "}";
  }
  out << "],\n \"goals\": [";
  for (std::size_t i = 0; i < goals_.size(); ++i) {
    const Goal& goal = goals_[i];
    out << (i == 0 ? "\n  " : ",\n  ") << "{\"id\": " << quoted(goal.id)
        << ", \"value\": " << number(goal.value) << ", \"op\": " << quoted(goal.op)
        << ", \"goal\": " << number(goal.goal) << ", \"met\": " << (goal.met() ? "true" : "false")
        << "}";
  }
  out << "]}\n";
  return out.str();
}

std::string far_from_reference(double value, double reference) {
  if (value <= 2 * reference && reference <= 2 * value) return "";
  char text[64];
  std::snprintf(text, sizeof(text), "far from reference %.3g", reference);
  return text;
}

bool Report::finish(const std::string& directory) const {
  print();
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const std::string path = directory + "/" + name_ + ".json";
  std::ofstream file(path);
  file << json();
  file.close();
  if (!file) std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return static_cast<bool>(file);
}

}  // namespace larder::bench
