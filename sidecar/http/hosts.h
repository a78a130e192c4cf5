// Hosts: the names under which a server answers. Plain values, pure but for own_name(), which of() asks; thread-compatible.
//
// A page of evil.example may point its own name at this machine (DNS rebinding). A browser then sends `Host: evil.example` and lets
// the page read the answer. A server that refuses names it does not know is safe: an address and "localhost" are nothing that a page
// can have as its name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/config/values.h"

namespace larder::http {

// The value of a Host field (RFC 9110, 7.2): the host in lower case, without port, brackets and final dot. Nothing: malformed.
std::optional<std::string> host_of(std::string_view value);

// What the head of a request says of the way it came.
struct Asked {
  std::string_view host = {};             // value of Host
  std::string_view accept_encoding = {};  // empty: not there, as the next one
  std::string_view forwarded_uri = {};    // X-Forwarded-Uri
};

class Hosts {
 public:
  // Everything: a Unix socket, or a server whose TLS certificate no browser takes for another name.
  static Hosts any() { return {}; }
  // Addresses, "localhost", the host of `address`, `names` (each as a browser writes it; "*.example" is every name below example).
  // Not on loopback: also this machine's own name, and what only a cluster's network can send: names of Kubernetes Services (NAME.NS.svc,
  // with .cluster.local or without), and what the API server passes on from its clients (pods/proxy).
  static Hosts of(const config::ListenAddress& address, bool loopback, const std::vector<std::string>& names = {});

  // REQUIRES: host_of(asked.host).
  bool answers(const Asked& asked) const;

 private:
  bool any_ = true, cluster_ = false;
  std::vector<std::string> names_;
};

// Of this machine or pod, in lower case.
std::string own_name();

}  // namespace larder::http
