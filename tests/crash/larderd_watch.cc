#include "tests/crash/larderd_watch.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace larder::crash {
namespace {

namespace fs = std::filesystem;

// A number of /proc/PID/status.
double status_value(const std::string& process, const std::string& name) {
  std::ifstream file(process + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1));
  return 0;
}

double session_regions(const std::string& process) {
  std::ifstream file(process + "/maps");
  double regions = 0;
  for (std::string line; std::getline(file, line);)
    regions += line.find("memfd:larder-session") != std::string::npos ? 1 : 0;
  return regions;
}

double descriptors(const std::string& process) {
  std::error_code gone;
  return static_cast<double>(std::distance(fs::directory_iterator(process + "/fd", gone), {}));
}

}  // namespace

void LarderdWatch::take(pid_t larderd, double at_s) {
  const std::string process = "/proc/" + std::to_string(larderd);
  samples_.push_back({at_s,
                      {status_value(process, "RssAnon") / 1024, descriptors(process),
                       status_value(process, "Threads"), session_regions(process)}});
}

std::span<const LarderdWatch::Sample> LarderdWatch::looked_at() const {
  return std::span(samples_).subspan(
      static_cast<std::size_t>(from_ * static_cast<double>(samples_.size())));
}

std::pair<double, double> LarderdWatch::ends(std::size_t figure) const {
  std::vector<double> values;
  for (const Sample& sample : looked_at()) values.push_back(sample.values[figure]);
  if (values.empty()) return {0, 0};
  const auto third = static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, values.size() / 3));
  const auto median = [](std::vector<double> some) {
    std::sort(some.begin(), some.end());
    return some[some.size() / 2];
  };
  return {median({values.begin(), values.begin() + third}),
          median({values.end() - third, values.end()})};
}

// Least squares.
double LarderdWatch::slope_per_minute(std::size_t figure) const {
  const std::span<const Sample> samples = looked_at();
  const auto count = static_cast<double>(samples.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const Sample& sample : samples) {
    const double at = sample.at_s / 60, value = sample.values[figure];
    x += at;
    y += value;
    xx += at * at;
    xy += at * value;
  }
  const double spread = count * xx - x * x;
  return spread > 0 ? (count * xy - x * y) / spread : 0;
}

std::string LarderdWatch::table() const {
  std::string text;
  for (std::size_t figure = 0; figure < kFigures.size(); ++figure) {
    const auto [first, last] = ends(figure);
    double most = 0;
    for (const Sample& sample : looked_at()) most = std::max(most, sample.values[figure]);
    char line[160];
    std::snprintf(line, sizeof(line), "  %-24s %-24s %10.2f %10.2f %10.2f %12.3f\n", of_.c_str(),
                  kFigures[figure].name, first, last, most, slope_per_minute(figure));
    text += line;
  }
  return text;
}

std::string LarderdWatch::growth() const {
  std::string text;
  for (std::size_t figure = 0; figure < kFigures.size(); ++figure) {
    const auto [first, last] = ends(figure);
    if (last > first * (1 + kFigures[figure].share) + kFigures[figure].more)
      text += of_ + ": " + kFigures[figure].name + " " + std::to_string(first) + " -> " +
              std::to_string(last) + "\n";
  }
  return text;
}

}  // namespace larder::crash
