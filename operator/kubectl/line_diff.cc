#include "operator/kubectl/line_diff.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace larder::kubectl {
namespace {

using Lines = std::vector<std::string_view>;

constexpr std::size_t kContext = 3;
// The table needs 4 bytes a cell, i.e. 16 MiB. A pod in YAML has some hundred lines.
constexpr std::size_t kMostCells = 4'000'000;  // of the table; longer texts differ entirely

struct Step {
  char mark;  // ' ', '-' or '+'
  std::string_view line;
};

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Length of the longest common subsequence after line i of one text and line j of the other.
// The classic table of the longest common subsequence, from the end, so steps_between() walks
// forward.
class Common {
 public:
  Common(const Lines& before, const Lines& after)
      : width_(after.size() + 1), cells_((before.size() + 1) * width_) {
    for (std::size_t i = before.size(); i-- > 0;)
      for (std::size_t j = after.size(); j-- > 0;)
        at(i, j) =
            before[i] == after[j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
  }
  std::uint32_t& at(std::size_t i, std::size_t j) { return cells_[i * width_ + j]; }

 private:
  const std::size_t width_;
  std::vector<std::uint32_t> cells_;
};

std::vector<Step> steps_between(const Lines& before, const Lines& after) {
  std::vector<Step> steps;
  std::size_t i = 0, j = 0;
  if ((before.size() + 1) * (after.size() + 1) <= kMostCells) {
    Common common(before, after);
    while (i < before.size() && j < after.size()) {
      if (before[i] == after[j]) {
        steps.push_back({' ', before[i++]});
        ++j;
        // Removals come before additions, as in diff -u.
      } else if (common.at(i + 1, j) >= common.at(i, j + 1)) {
        steps.push_back({'-', before[i++]});
      } else {
        steps.push_back({'+', after[j++]});
      }
    }
  }
  while (i < before.size()) steps.push_back({'-', before[i++]});
  while (j < after.size()) steps.push_back({'+', after[j++]});
  return steps;
}

// The form of unified diffs: an empty range names the line before it.
std::string range_of(std::size_t from, std::size_t count) {
  return std::to_string(count == 0 ? from : from + 1) +
         (count == 1 ? "" : "," + std::to_string(count));
}

// The end of the hunk whose first change is at `at`, including the context after its last change.
// Two changes with at most twice the context between them are one hunk.
std::size_t end_of_piece(const std::vector<Step>& steps, std::size_t at) {
  std::size_t last = at;
  for (std::size_t i = at; i < steps.size() && i <= last + 2 * kContext + 1; ++i)
    if (steps[i].mark != ' ') last = i;
  return std::min(last + kContext + 1, steps.size());
}

}  // namespace

std::string line_diff(std::string_view before_name, std::string_view before,
                      std::string_view after_name, std::string_view after) {
  const std::vector<Step> steps = steps_between(lines_of(before), lines_of(after));
  std::string text;
  std::size_t old_line = 0, new_line = 0, counted = 0;
  // Line numbers count in the old text without additions, and in the new one without removals.
  const auto count_up_to = [&](std::size_t end) {
    for (; counted < end; ++counted) {
      old_line += steps[counted].mark != '+';
      new_line += steps[counted].mark != '-';
    }
  };
  for (std::size_t at = 0; at < steps.size(); ++at) {
    if (steps[at].mark == ' ') continue;
    const std::size_t begin = std::max(at - std::min(at, kContext), counted),
                      end = end_of_piece(steps, at);
    count_up_to(begin);
    const std::size_t old_from = old_line, new_from = new_line;
    count_up_to(end);
    text += "@@ -" + range_of(old_from, old_line - old_from) + " +" +
            range_of(new_from, new_line - new_from) + " @@\n";
    for (std::size_t i = begin; i < end; ++i)
      text += steps[i].mark + std::string(steps[i].line) + "\n";
    at = end - 1;
  }
  if (text.empty()) return text;
  return "--- " + std::string(before_name) + "\n+++ " + std::string(after_name) + "\n" + text;
}

}  // namespace larder::kubectl
