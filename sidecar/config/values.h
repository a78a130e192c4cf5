// What a configuration value may look like: text in, value or the reason in words out. Pure; thread-safe.
//
// Both the YAML file and the environment give texts, so that "010" is never eight by accident: only socket modes are octal.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::config {

// The whole text as a number; `base`: of an integer, else 10. False where it is none.
template <typename Number>
bool parse_number(std::string_view text, Number& number, auto... base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
  return error == std::errc() && end == text.data() + text.size();
}

// "5GiB", "5Gi" and "5G" are the same: units are powers of 1024, a number without one is refused.
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

// Letters, digits, '.', '_', '-'; at most 63, none of them '.' or '-' at the start.
Status check_name(std::string_view text);
// The same for a prefix of keys in a backend, at most 127: the longest NAMESPACE.POOL of Kubernetes has 109.
Status check_prefix(std::string_view text);
Status check_absolute_path(std::string_view text);
// An absolute path that fits into a Unix socket address.
Status check_socket_path(std::string_view text);

// Whether it looks like a host's name or an IPv4 address; in brackets: like an IPv6 address, with a zone or without.
bool is_host(std::string_view text, bool bracketed);

// "a.example, *.example": names of hosts, of which "*.NAME" means all below NAME; at most 16. Empty: none.
Result<std::vector<std::string>> parse_hosts(std::string_view text);
std::string print_hosts(const std::vector<std::string>& names);

struct ListenAddress {
  std::string host;  // empty: every address of the machine
  std::uint16_t port = 0;
};
// "127.0.0.1:9464", "[::1]:9464", "localhost:9464", ":9464"; port 0 takes a free one.
Result<ListenAddress> parse_listen(std::string_view text);

}  // namespace larder::config
