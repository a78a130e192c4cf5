#include "sidecar/config/values.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <limits>

namespace larder::config {
namespace {

Status invalid(std::string text) {
  return {Code::kInvalidArgument, std::move(text)};
}

struct Unit {
  std::string_view name;
  int shift;
};
// The first form of each size is the form of print_size().
constexpr std::array<Unit, 12> kUnits{{{"TiB", 40},
                                       {"Ti", 40},
                                       {"T", 40},
                                       {"GiB", 30},
                                       {"Gi", 30},
                                       {"G", 30},
                                       {"MiB", 20},
                                       {"Mi", 20},
                                       {"M", 20},
                                       {"KiB", 10},
                                       {"Ki", 10},
                                       {"K", 10}}};

// The largest unit first: print_duration_s() takes the first unit that divides the value.
struct Period {
  char name;
  std::uint32_t seconds;
};
constexpr std::array<Period, 4> kPeriods{{{'d', 86'400}, {'h', 3600}, {'m', 60}, {'s', 1}}};

constexpr std::size_t kMostHosts = 16, kMostHostBytes = 253;  // each request compares all names

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

// Names become parts of file names and Redis keys: no slash, and no dot at the start (hidden files,
// "..").
Status check_letters(std::string_view text, std::size_t most) {
  const bool sized = !text.empty() && text.size() <= most && text[0] != '.' && text[0] != '-';
  if (sized && std::ranges::all_of(text, is_name_character)) return {};
  return invalid("is no name: 1 to " + std::to_string(most) +
                 " letters, digits, '.', '_' and '-', beginning with a letter, digit or '_'");
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::uint64_t number = 0;
  if (!parse_number(text.substr(0, digits), number))
    return invalid("is no size: a whole number and a unit, e.g. 5GiB");
  const std::string_view name = text.substr(digits);
  // "1.5GiB" has an exact form in MiB; a rounded fraction would surprise.
  if (name.starts_with('.') || name.starts_with(','))
    return invalid("is no whole number: take a smaller unit, e.g. 1536MiB");
  if (name.empty() && number == 0)
    return number;  // 0 needs no unit; the field decides whether 0 is allowed
  // "5" may mean bytes or GiB. A guess would be wrong by nine digits.
  if (name.empty()) return invalid("has no unit: K, M, G, T or KiB, MiB, GiB, TiB, e.g. 5GiB");
  for (const Unit& unit : kUnits) {
    if (unit.name != name) continue;
    // Before the shift, which drops high bits silently.
    if (number > (std::numeric_limits<std::uint64_t>::max() >> unit.shift))
      return invalid("is too large for a size");
    return number << unit.shift;
  }
  return invalid("has unknown unit '" + std::string(name) +
                 "': K, M, G, T or KiB, MiB, GiB, TiB (all powers of 1024), e.g. 5GiB");
}

// The largest unit that divides the value, so the text parses to the same number.
std::string print_size(std::uint64_t bytes) {
  for (std::size_t i = 0; i < kUnits.size(); i += 3) {  // each size has three names
    const std::uint64_t unit = 1ULL << kUnits[i].shift;
    if (bytes >= unit && bytes % unit == 0)
      return std::to_string(bytes / unit) + std::string(kUnits[i].name);
  }
  return std::to_string(bytes);
}

Result<std::uint32_t> parse_duration_s(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::uint32_t number = 0;
  if (!parse_number(text.substr(0, digits), number))
    return invalid("is no duration: a whole number and a unit, e.g. 12h");
  const std::string_view name = text.substr(digits);
  if (name.empty() && number == 0) return number;
  for (const Period& period : kPeriods) {
    if (name.size() != 1 || name.front() != period.name) continue;
    if (number > std::numeric_limits<std::uint32_t>::max() / period.seconds)
      return invalid("is too long for a duration");
    return number * period.seconds;
  }
  return invalid("has no unit of s, m, h or d, e.g. 12h");
}

std::string print_duration_s(std::uint32_t seconds) {
  for (const Period& period : kPeriods)
    if (seconds != 0 && seconds % period.seconds == 0)
      return std::to_string(seconds / period.seconds) + period.name;
  return "0";
}

Result<std::uint32_t> parse_mode(std::string_view text) {
  std::uint32_t mode = 0;
  // "660" and "0660" are the same mode; "6" is a slip.
  if (text.size() < 3 || text.size() > 4 || !parse_number(text, mode, 8) || mode > 0777)
    return invalid("is no file mode: three or four octal digits up to 0777, e.g. 0660");
  if ((mode & 0600) != 0600)
    return invalid("shuts larderd's own user out: the mode must contain 0600, e.g. 0660");
  return mode;
}

std::string print_mode(std::uint32_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", mode);
  return text.data();
}

Status check_name(std::string_view text) {
  return check_letters(text, 63);
}

Status check_prefix(std::string_view text) {
  return check_letters(text, 127);
}

Status check_absolute_path(std::string_view text) {
  if (text.empty() || text[0] != '/') return invalid("is no absolute path: it must begin with '/'");
  return {};
}

Status check_socket_path(std::string_view text) {
  if (Status status = check_absolute_path(text); !status.ok()) return status;
  // 107 bytes on Linux, one less than the field for the zero byte.
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (text.size() > kLongest)
    return invalid("is too long for a Unix socket: at most " + std::to_string(kLongest) + " bytes");
  return {};
}

bool is_host(std::string_view text, bool bracketed) {
  return std::ranges::all_of(text, [bracketed](unsigned char c) {
    // '%' inside brackets: a link-local address has a zone, "[fe80::1%eth0]".
    return std::isalnum(c) || c == '.' || (bracketed ? c == ':' || c == '%' : c == '-' || c == '_');
  });
}

Result<std::vector<std::string>> parse_hosts(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    // The star stands for one or more labels, and only at the start.
    const std::string_view host = name.starts_with("*.") ? name.substr(2) : name;
    if (host.empty() || name.size() > kMostHostBytes || host.starts_with('.') ||
        !is_host(host, false))
      return invalid("holds '" + std::string(name) +
                     "', which is no name of a host: write names such as a.example or *.example, "
                     "with a comma between two");
    names.emplace_back(name);
  }
  if (names.size() > kMostHosts)
    return invalid("holds more than " + std::to_string(kMostHosts) + " names");
  return names;
}

std::string print_hosts(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Result<ListenAddress> parse_listen(std::string_view text) {
  constexpr const char* kWhy =
      "is no address to listen on: HOST:PORT with a port up to 65535, e.g. 127.0.0.1:9464";
  // The last colon: an IPv6 address has more.
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid(kWhy);
  ListenAddress address;
  std::string_view host = text.substr(0, colon);
  if (!parse_number(text.substr(colon + 1), address.port)) return invalid(kWhy);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find_first_of(":[]") != std::string_view::npos)
    return invalid("holds an IPv6 address without brackets: write [::1]:9464");
  if (!is_host(host, bracketed)) return invalid(kWhy);
  address.host = host;
  return address;
}

}  // namespace larder::config
