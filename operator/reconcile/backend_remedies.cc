#include "operator/reconcile/backend_remedies.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace larder::reconcile {
namespace {

struct Cure {
  std::string_view id, text;
};
constexpr std::array<Cure, 20> kCures{{
    {"cluster", "Set spec.mode: Cluster"},
    {"sentinel", "Set spec.mode: Sentinel, and spec.master to the name of `sentinel monitor NAME`"},
    {"standalone", "Set spec.mode: Standalone"},
    {"no-sentinel", "spec.endpoints must name the Sentinels (mostly port 26379), or set spec.mode: Standalone"},
    {"sentinel-master", "spec.master is the name of `sentinel monitor NAME` (SENTINEL MASTERS tells it)"},
    {"password-file", "The Secret that spec.password names must hold the password and nothing else"},
    {"tls-files", "The Secrets that spec.tls names must hold PEM: ca.crt; tls.crt and tls.key without a passphrase"},
    {"certificate-name", "Name the host as the certificate does, or set spec.tls.serverName to a name in it"},
    {"certificate-authority", "Put its authority's certificate into a Secret of this namespace (key ca.crt): spec.tls.caSecret"},
    {"no-tls", "This port speaks no TLS: remove spec.tls, or name the server's tls-port"},
    {"client-certificate", "The server wants a client's certificate: a Secret with tls.crt and tls.key in spec.tls.clientSecret"},
    {"no-password", "Put the password into a Secret of this namespace and name it in spec.password; an ACL user in spec.user"},
    {"wrong-password", "spec.user, or what is in the Secret that spec.password names, is not what the server has (ACL LIST)"},
    {"refused", "Is the server up, does it listen there (bind, port; tls-port for TLS)? Is the port in spec.endpoints right?"},
    {"unreachable",
     "Is the name in spec.endpoints right (a Service of another namespace is NAME.NAMESPACE.svc)? May pods reach it?"},
    {"silent",
     "Does a NetworkPolicy or firewall let the operator's and the engines' pods through? Is the server stopped? A "
     "port without TLS is silent too when spec.tls is set"},
    {"closed", "Does the server want TLS (spec.tls), or a client's certificate (spec.tls.clientSecret)? Its log says why"},
    {"no-database", "The server has no such database: correct spec.database"},
    {"volatile", "Set maxmemory-policy allkeys-lru at the server, or spec.backendWrite.ttl of the pools"},
    {"one-sentinel", "Name three of them in spec.endpoints"},
}};

}  // namespace

std::string remedy_for_backend(const std::string& id, const std::string& otherwise) {
  const auto* found = std::ranges::find(kCures, std::string_view(id), &Cure::id);
  if (found != kCures.end()) return std::string(found->text);
  std::string text = otherwise;
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace larder::reconcile
