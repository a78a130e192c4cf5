#include "sidecar/http/metrics_page.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace larder::http {
namespace {

struct Label {
  std::string_view name;
  std::vector<std::string_view> values;
};

struct Family {
  std::string_view name, help, type;
  std::vector<Label> labels;
};

// Works on one page in memory: all views point into `text` of families_in().
std::string_view cut(std::string_view& rest, char at) {
  const std::size_t end = std::min(rest.find(at), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

void add_value(Family& family, std::string_view name, std::string_view value) {
  if (name == "le") return;  // every histogram has this label
  auto label = std::ranges::find(family.labels, name, &Label::name);
  if (label == family.labels.end()) label = family.labels.insert(label, {name, {}});
  if (std::ranges::find(label->values, value) == label->values.end())
    label->values.push_back(value);
}

// NAME{LABEL="VALUE",...} NUMBER
void add_sample(Family& family, std::string_view line) {
  // The last '}' ends the labels, since a value may contain braces.
  const std::size_t begin = line.find('{'), end = line.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos) return;
  for (std::string_view rest = line.substr(begin + 1, end - begin - 1); !rest.empty();) {
    const std::string_view name = cut(rest, '=');
    // Label values of the example have no escaped quotes, so a simple cut is enough.
    cut(rest, '"');
    add_value(family, name, cut(rest, '"'));
    cut(rest, ',');
  }
}

std::vector<Family> families_in(std::string_view text) {
  std::vector<Family> families;
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    if (!line.starts_with("# ")) {
      if (!families.empty()) add_sample(families.back(), line);
      continue;
    }
    cut(line, ' ');
    const std::string_view kind = cut(line, ' '), name = cut(line, ' ');
    // "# HELP" and "# TYPE" of one family follow each other.
    if (families.empty() || families.back().name != name) families.push_back({name, {}, {}, {}});
    (kind == "HELP" ? families.back().help : families.back().type) = line;
  }
  return families;
}

// The unit at the end of a name, by the naming rules of Prometheus.
std::string_view unit_of(std::string_view name) {
  if (name.ends_with("_total")) name.remove_suffix(6);
  if (name.ends_with("_timestamp_seconds")) return "seconds since 1970";
  if (name.ends_with("_bytes_per_second")) return "bytes a second";
  for (const std::string_view unit : {"seconds", "bytes", "ratio"})
    if (name.ends_with(unit)) return unit;
  return "";
}

std::string labels_of(Family& family, std::span<const OpenLabel> open) {
  std::string text;
  for (Label& label : family.labels) {
    std::ranges::sort(label.values);
    text += std::string(text.empty() ? "" : "; ") + "`" + std::string(label.name) + "`: ";
    const auto described = std::ranges::find(open, label.name, &OpenLabel::name);
    // The values are open (model names): the page describes the label and lists no example.
    if (described != open.end()) {
      text += described->values;
      continue;
    }
    for (std::size_t i = 0; i < label.values.size(); ++i)
      text += std::string(i == 0 ? "" : ", ") + "`" + std::string(label.values[i]) + "`";
  }
  return text;
}

}  // namespace

std::string metrics_table(std::string_view exposition, std::span<const OpenLabel> open) {
  std::vector<Family> families = families_in(exposition);
  std::string text = "| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n";
  for (Family& family : families)
    text += "| `" + std::string(family.name) + "` | " + std::string(family.type) + " | " +
            std::string(unit_of(family.name)) + " | " + labels_of(family, open) + " | " +
            std::string(family.help) + " |\n";
  return text;
}

}  // namespace larder::http
