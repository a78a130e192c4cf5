#include "operator/reconcile/backend_remedies.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace larder::reconcile {
namespace {

// larderctl's remedies name options of larderd's configuration. A CacheBackend has other fields, so
// the same finding needs another text here. A finding that is missing here keeps larderctl's text.
struct Remedy {
  std::string_view id, text;
};
constexpr std::array<Remedy, 20> kRemedies{{
    {"cluster", "Set spec.mode: Cluster"},
    {"sentinel", "Set spec.mode: Sentinel, and spec.master to the name of `sentinel monitor NAME`"},
    {"standalone", "Set spec.mode: Standalone"},
    {"no-sentinel",
     "Name the Sentinels in spec.endpoints (mostly port 26379), or set spec.mode: Standalone"},
    {"sentinel-master",
     "Set spec.master to the name of `sentinel monitor NAME` (SENTINEL MASTERS lists the names)"},
    {"password-file", "The Secret that spec.password names must hold the password alone"},
    {"tls-files",
     "The Secrets that spec.tls names must hold PEM: ca.crt; tls.crt and tls.key without a "
     "passphrase"},
    {"certificate-name",
     "Name the host as the certificate does, or set spec.tls.serverName to a name in the "
     "certificate"},
    {"certificate-authority",
     "Put the certificate of the authority into a Secret of this namespace (key ca.crt) and name "
     "the Secret in spec.tls.caSecret"},
    {"no-tls", "This port does not speak TLS: remove spec.tls, or name the server's tls-port"},
    {"client-certificate",
     "The server requires a client's certificate: name a Secret with tls.crt and tls.key in "
     "spec.tls.clientSecret"},
    {"no-password",
     "Put the password into a Secret of this namespace and name the Secret in spec.password; name "
     "an ACL user in spec.user"},
    {"wrong-password",
     "Make spec.user and the Secret that spec.password names equal to the server's user and "
     "password (ACL LIST)"},
    {"refused",
     "Check that the server runs and listens there (bind, port; tls-port for TLS), and check the "
     "port in spec.endpoints"},
    {"unreachable",
     "Check the name in spec.endpoints (a Service of another namespace is NAME.NAMESPACE.svc), and "
     "whether pods may reach the server"},
    {"silent",
     "Check that NetworkPolicies and firewalls let the operator's and the engines' pods through, "
     "and that the server is not stopped. With spec.tls, a port without TLS is silent, too"},
    {"closed",
     "Check whether the server requires TLS (spec.tls) or a client's certificate "
     "(spec.tls.clientSecret); the server's log has the reason"},
    {"no-database", "The server has no such database: correct spec.database"},
    {"volatile",
     "Set maxmemory-policy allkeys-lru at the server, or spec.backendWrite.ttl of the pools"},
    {"one-sentinel", "Name three Sentinels in spec.endpoints"},
}};

}  // namespace

std::string remedy_for_backend(const std::string& id, const std::string& otherwise) {
  const auto* found = std::ranges::find(kRemedies, std::string_view(id), &Remedy::id);
  if (found != kRemedies.end()) return std::string(found->text);
  // larderctl prints remedies in lower case after a colon; here the remedy is a sentence of its
  // own.
  std::string text = otherwise;
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace larder::reconcile
