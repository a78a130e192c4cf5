// The syntax of configuration values: text in, value or the reason of the refusal out. Pure;
// thread-safe.
//
// The YAML file and the environment both give texts, and no number rule of YAML applies: "010" is
// ten. Only socket modes are octal.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::config {

// Parses the whole text as a number. `base`: of an integer, 10 if missing. False if the text is no
// number.
template <typename Number>
bool parse_number(std::string_view text, Number& number, auto... base) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, base...);
  return error == std::errc() && end == text.data() + text.size();
}

// "5GiB", "5Gi" and "5G" are equal: units are powers of 1024. A number without a unit is refused,
// and so is "5GB", because other software means powers of 1000 by it.
Result<std::uint64_t> parse_size(std::string_view text);
// The shortest exact form, "5GiB".
std::string print_size(std::uint64_t bytes);

// "90s", "15m", "12h", "30d" in seconds; "0" needs no unit.
Result<std::uint32_t> parse_duration_s(std::string_view text);
// The shortest exact form, "15m".
std::string print_duration_s(std::uint32_t seconds);

// Three or four octal digits; the owner must be able to read and write.
Result<std::uint32_t> parse_mode(std::string_view text);
std::string print_mode(std::uint32_t mode);

// Letters, digits, '.', '_', '-'; at most 63 characters, and '.' or '-' not at the start.
Status check_name(std::string_view text);
// The same for a prefix of keys in a backend, at most 127 characters: the longest NAMESPACE.POOL of
// Kubernetes has 109.
Status check_prefix(std::string_view text);
Status check_absolute_path(std::string_view text);
// An absolute path that fits into a Unix socket address.
Status check_socket_path(std::string_view text);

// Whether the text looks like a host name or an IPv4 address. `bracketed`: whether the text looks
// like an IPv6 address, with or without a zone.
bool is_host(std::string_view text, bool bracketed);

// "a.example, *.example": at most 16 host names; "*.NAME" means every name below NAME. An empty
// text gives an empty list.
Result<std::vector<std::string>> parse_hosts(std::string_view text);
std::string print_hosts(const std::vector<std::string>& names);

struct ListenAddress {
  std::string host;  // empty: every address of the machine
  std::uint16_t port = 0;
};
// "127.0.0.1:9464", "[::1]:9464", "localhost:9464", ":9464"; port 0 takes a free port.
Result<ListenAddress> parse_listen(std::string_view text);

}  // namespace larder::config
