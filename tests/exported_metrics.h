// Families of metrics with their types, "NAME TYPE", from a scrape or from
// docs/reference/metrics.md.
#pragma once

#include <set>
#include <sstream>
#include <string>

namespace larder::test {

inline std::set<std::string> families_of_scrape(const std::string& text) {
  std::set<std::string> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with("# TYPE ")) families.insert(line.substr(7));
  }
  return families;
}

// Of the page's part with that heading, up to the next one.
inline std::set<std::string> families_of_page(const std::string& page, const std::string& heading) {
  std::set<std::string> families;
  const std::size_t begin = page.find("\n## " + heading + "\n"),
                    end = page.find("\n## ", begin + 1);
  if (begin == std::string::npos) return families;
  std::istringstream lines(page.substr(begin, end - begin));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const std::size_t name_end = line.find('`', 3), type = name_end + 4;
    families.insert(line.substr(3, name_end - 3) + " " +
                    line.substr(type, line.find(' ', type) - type));
  }
  return families;
}

}  // namespace larder::test
