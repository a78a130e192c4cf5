// Hosts: the names under which a server answers. Plain values, pure but for own_host_name(), which
// of() asks; thread-compatible.
//
// A page of evil.example may point its own name at this machine (DNS rebinding). A browser then
// sends `Host: evil.example` and lets the page read the answer. A server that refuses unknown names
// is safe: a page cannot have an address or "localhost" as its name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/config/values.h"

namespace larder::http {

// The value of a Host field (RFC 9110, 7.2): the host in lower case, without port, brackets, zone
// and final dot. Empty if the value is malformed.
std::optional<std::string> host_of(std::string_view value);

// The fields of a request's head by which Hosts decides.
struct Asked {
  std::string_view host = {};             // value of Host
  std::string_view accept_encoding = {};  // empty: missing, as for the next field
  std::string_view forwarded_uri = {};    // X-Forwarded-Uri
};

class Hosts {
 public:
  // Every name: for a Unix socket, or a server with a TLS certificate that a browser refuses under
  // another name.
  static Hosts any() { return {}; }
  // Addresses, "localhost", the host of `address`, and `names` ("*.example": every name below
  // example). Beyond loopback also the machine's own name, names of Kubernetes Services
  // (NAME.NS.svc, with .cluster.local or without), and requests that the API server passes on
  // (pods/proxy).
  static Hosts of(const config::ListenAddress& address, bool loopback,
                  const std::vector<std::string>& names = {});

  // REQUIRES: host_of(asked.host).
  bool answers(const Asked& asked) const;

 private:
  bool any_ = true, cluster_ = false;
  std::vector<std::string> names_;
};

// The name of this machine or pod, in lower case.
std::string own_host_name();

}  // namespace larder::http
