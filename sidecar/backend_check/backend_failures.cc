#include "sidecar/backend_check/backend_failures.h"

#include <array>

namespace larder::backend_check {
namespace {

using Step = ServerFacts::Step;

// A reason is known by words of its text; the first that fits counts. tests/component/backend_check_test.cc has each from a real
// server, so that other words there are noticed.
struct Reason {
  std::string_view sign, id, remedy;
};
constexpr std::array<Reason, 43> kReasons{{
    {"not a standalone one", "cluster", "say so in backend.url: redis-cluster://HOST:PORT,..."},
    {"not one that keeps data", "sentinel",
     "say so in backend.url: redis-sentinel://HOST:PORT,.../MASTER, with the name of `sentinel monitor MASTER`"},
    {"not a node of a Cluster", "standalone", "say so in backend.url: redis://HOST:PORT"},
    {"is no Sentinel but", "no-sentinel",
     "name the Sentinels (their port is mostly 26379), or the server alone, without them: redis://HOST:PORT"},
    {"knows no master", "sentinel-master",
     "what stands behind the hosts in backend.url is the name of `sentinel monitor NAME` (SENTINEL MASTERS tells it)"},
    {"whom the Sentinels name is a replica", "replica", "the Sentinels are just making another the master: ask again"},
    {"serves no keys yet", "no-slots", "give its nodes slots: redis-cli --cluster create, or --cluster fix"},
    {"CLUSTERDOWN", "cluster-down",
     "slots are without a master: redis-cli --cluster check; CONFIG SET cluster-require-full-coverage no, so that the others "
     "serve"},
    {"sends our password back", "wrong-bytes", "do not use this server"},
    {"password_file", "password-file", "name a readable file that holds the password and nothing else"},
    {"ca_file:", "tls-files", "name a PEM file with the authority's certificates that larderd's user can read"},
    {"cert_file:", "tls-files", "name a PEM file with larderd's certificate that larderd's user can read"},
    {"key_file:", "tls-files", "name the PEM file with the key of cert_file, without a passphrase"},
    {"hostname mismatch", "certificate-name",
     "name the host as the certificate does, or set backend.server_name (--server-name) to that name"},
    {"IP address mismatch", "certificate-name",
     "the certificate names no such address: set backend.server_name (--server-name) to a name in it"},
    {"has expired", "certificate-date", "renew the server's certificate"},
    {"not yet valid", "certificate-date", "the server's certificate is not valid yet, or this machine's clock is wrong"},
    {"the server's certificate", "certificate-authority",
     "an authority that is not known here signed it: set backend.ca_file (--ca-file) to that authority's certificate"},
    {"wrong version number", "no-tls", "this port speaks no TLS: redis://, or the server's tls-port"},
    {"packet length too long", "no-tls", "this port speaks no TLS: redis://, or the server's tls-port"},
    {"certificate required", "client-certificate",
     "the server asks for a client's certificate: set backend.cert_file and backend.key_file, signed by its tls-ca-cert-file"},
    {"unknown ca", "client-certificate", "the server does not take our certificate: it must be signed by its tls-ca-cert-file"},
    {"handshake failure", "client-certificate",
     "the server refuses the TLS handshake: it may want a client's certificate (backend.cert_file), or other TLS versions"},
    {"TLS: ", "tls", "see the server's log, which says what it refuses"},
    {"NOAUTH", "no-password",
     "put the password into a file and name it in backend.password_file (--password-file); an ACL user goes into "
     "the URL, redis://user@host"},
    {"WRONGPASS", "wrong-password",
     "the user in the URL, or the password in backend.password_file, is another one than the server's (ACL LIST)"},
    {"DENIED", "protected-mode",
     "set a password (requirepass, or an ACL user) and the addresses to listen on (bind) at the server: that ends protected "
     "mode"},
    {"NOPERM", "rights", ""},
    {"NOPROTO", "protocol", "take Redis 6.2 or newer, or Valkey"},
    {"does not know HELLO", "too-old", "take Redis 6.2 or newer, or Valkey; where HELLO is renamed or forbidden, allow it"},
    {"maxclients", "maxclients", "raise the server's maxclients: each larderd takes two connections"},
    {"LOADING", "loading", "wait until the server has loaded its data set, and ask again"},
    {"BUSY", "busy", "wait for the script that runs there, or end it (SCRIPT KILL)"},
    {"MASTERDOWN", "replica", "this is a replica without its master: name the master"},
    {"other bytes", "wrong-bytes", "do not use this server"},
    {"Connection refused", "refused", "is the server up, and does it listen there? (bind and port; tls-port for TLS)"},
    {"No such file", "no-socket", "is the server up, and is this its unixsocket?"},
    {"Permission denied", "socket-rights",
     "let larderd's user into the socket: the server's unixsocketperm, and the folders above it"},
    {"closed the connection", "closed", ""},
    {"Connection reset", "closed", ""},
    {"Broken pipe", "closed", ""},
    {"does not answer", "silent", ""},
    {"broke the protocol", "protocol", "what answers there is no Redis or Valkey, or a port for TLS"},
}};

std::string cure_of(const Reason& reason, const Seen& seen) {
  if (seen.kind == remote::Kind::kSentinel) {
    if (reason.id == "rights") return "let the user ask whom they watch: " + least_sentinel_rights(seen.backend);
    if (reason.id == "no-password" || reason.id == "wrong-password")
      return "the Sentinels have users of their own: backend.sentinel_user and backend.sentinel_password_file "
             "(--sentinel-user, --sentinel-password-file)";
  }
  if (!reason.remedy.empty()) return std::string(reason.remedy);
  if (reason.id == "closed" && seen.facts.ended == Step::kUse)
    return "it talked to us until values of 2 MiB came: CONFIG SET client-output-buffer-limit \"normal 0 0 0\", and "
           "proto-max-bulk-len as it was (512mb); else its log says why";
  const bool tls = seen.backend.tls;
  if (reason.id == "rights") return "let the user do what larderd does: " + least_rights(seen.backend);
  if (reason.id == "silent")
    return std::string("is the address right, does a firewall let it through, is the server stopped or overloaded?") +
           (tls ? " A port without TLS is silent too: redis://" : "");
  return tls ? "does the server want a client's certificate (backend.cert_file)? Its log says what it refuses"
             : "is it a port for TLS (rediss://), or is protected mode on? The server's log says why";
}

std::string database_cure(const Seen& seen) {
  if (!seen.facts.databases) return "name a database that the server has, or none";
  return "the server has " + std::to_string(*seen.facts.databases) + " of them, counted from 0: name one, or set `databases`";
}

}  // namespace

Diagnostic failure_finding(const Seen& seen) {
  const std::string& text = seen.facts.failure.text();
  const auto unusable = [&text](std::string_view id, const std::string& remedy) {
    return Diagnostic{Weight::kUnusable, std::string(id), text, remedy};
  };
  if (text.find("refuses to select") != std::string::npos) return unusable("no-database", database_cure(seen));
  for (const Reason& reason : kReasons)
    if (text.find(reason.sign) != std::string::npos) return unusable(reason.id, cure_of(reason, seen));
  if (seen.facts.ended == Step::kConnect)
    return unusable("unreachable", "is the name or address right, and can this machine reach it?");
  return unusable("failed", "the server's log may say why");
}

}  // namespace larder::backend_check
