#include "sidecar/http/hosts.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace larder::http {
namespace {

// Of a reg-name (RFC 3986), besides letters and digits.
constexpr std::string_view kOtherHostCharacters = "-._~!$&'()*+,;=%";

bool is_digit(unsigned char c) {
  return std::isdigit(c) != 0;
}

bool is_host_character(unsigned char c) {
  return c < 0x80 && (std::isalnum(c) != 0 ||
                      kOtherHostCharacters.find(static_cast<char>(c)) != std::string_view::npos);
}

// DNS names are equal without regard to case.
std::string lower(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lowered;
}

bool is_address(const std::string& host) {
  in6_addr bytes{};
  return ::inet_pton(AF_INET, host.c_str(), &bytes) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

// `svc` is no top-level domain, and `.local` is not in DNS. The DNS server of a local network could
// still invent such a name, so Hosts does not accept service names on loopback.
bool is_service(std::string_view host) {
  return host.ends_with(".svc") || host.ends_with(".svc.cluster.local");
}

// A request through pods/proxy keeps the Host of the client: the name of the API server. A web page
// can set X-Forwarded-Uri, but Fetch forbids to set Accept-Encoding. Browsers send "gzip, deflate"
// and more; Go's clients send "gzip".
bool passed_on_by_api_server(const Asked& asked) {
  // All three: one condition alone could be met by a web page.
  return asked.accept_encoding == "gzip" &&
         asked.forwarded_uri.starts_with("/api/v1/namespaces/") &&
         asked.forwarded_uri.find("/proxy/") != std::string_view::npos;
}

// `name`: "example", or "*.example" for all names below example.
bool covers(std::string_view name, std::string_view host) {
  if (!name.starts_with("*.")) return name == host;
  return host.size() >= name.size() && host.ends_with(name.substr(1));
}

}  // namespace

std::optional<std::string> host_of(std::string_view value) {
  std::string_view host = value, port;
  if (value.starts_with('[')) {
    const std::size_t end = value.find(']');
    if (end == std::string_view::npos) return {};
    host = value.substr(1, end - 1);
    host = host.substr(0, host.find('%'));  // the zone is local to the client
    port = value.substr(end + 1);
    in6_addr bytes{};
    if (::inet_pton(AF_INET6, std::string(host).c_str(), &bytes) != 1) return {};
  } else {
    const std::size_t colon = value.find(':');
    host = value.substr(0, colon);
    port = colon == std::string_view::npos ? std::string_view() : value.substr(colon);
    if (!std::ranges::all_of(host, is_host_character)) return {};
    // "larder.example." is the absolute form of the same name.
    if (host.ends_with('.')) host.remove_suffix(1);
  }
  if (!port.empty() && (port.front() != ':' || !std::ranges::all_of(port.substr(1), is_digit)))
    return {};
  return lower(host);
}

Hosts Hosts::of(const config::ListenAddress& address, bool loopback,
                const std::vector<std::string>& names) {
  Hosts hosts;
  hosts.any_ = false;
  // Pods reach larderd by the name of a Service. A loopback address has no Service.
  hosts.cluster_ = !loopback;
  hosts.names_.emplace_back("localhost");
  if (!address.host.empty()) hosts.names_.push_back(lower(address.host));
  if (!loopback) hosts.names_.push_back(own_host_name());
  for (const std::string& name : names) hosts.names_.push_back(lower(name));
  std::erase(hosts.names_, "");
  return hosts;
}

bool Hosts::answers(const Asked& asked) const {
  if (any_) return true;
  const std::optional<std::string> host = host_of(asked.host);
  if (!host) return false;
  // DNS rebinding needs a name: a page at an address has the origin of that address already.
  if (is_address(*host) ||
      std::ranges::any_of(names_, [&](const std::string& name) { return covers(name, *host); }))
    return true;
  return cluster_ && (is_service(*host) || passed_on_by_api_server(asked));
}

std::string own_host_name() {
  std::array<char, 256> name{};
  // One byte stays 0: gethostname() may leave out the end of a long name.
  return ::gethostname(name.data(), name.size() - 1) == 0 ? lower(name.data()) : std::string();
}

}  // namespace larder::http
