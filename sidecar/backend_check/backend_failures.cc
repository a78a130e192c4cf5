#include "sidecar/backend_check/backend_failures.h"

#include <array>

namespace larder::backend_check {
namespace {

using Step = ServerFacts::Step;

// A reason is recognised by words of the failure's text, since one Status passes through several
// rooms and libraries. The first match counts, so specific words stand before general words ("TLS:
// " after the TLS errors). tests/component/backend_check_test.cc gets each text from a real server,
// and fails if a new version changes the words.
struct Reason {
  std::string_view sign, id, remedy;
};
constexpr std::array<Reason, 43> kReasons{{
    {"not a standalone one", "cluster", "write redis-cluster://HOST:PORT,... in backend.url"},
    {"not one that keeps data", "sentinel",
     "write redis-sentinel://HOST:PORT,.../MASTER in backend.url, with the name of `sentinel "
     "monitor MASTER`"},
    {"not a node of a Cluster", "standalone", "write redis://HOST:PORT in backend.url"},
    {"is no Sentinel but", "no-sentinel",
     "name the Sentinels (mostly port 26379), or the server alone: redis://HOST:PORT"},
    {"knows no master", "sentinel-master",
     "write the name of `sentinel monitor NAME` behind the hosts in backend.url (SENTINEL MASTERS "
     "lists the names)"},
    {"whom the Sentinels name is a replica", "replica",
     "the Sentinels are choosing another master: check again"},
    {"serves no keys yet", "no-slots",
     "give the nodes slots: redis-cli --cluster create, or --cluster fix"},
    {"CLUSTERDOWN", "cluster-down",
     "find the slots without a master: redis-cli --cluster check; CONFIG SET "
     "cluster-require-full-coverage no lets the other masters serve"},
    {"sends our password back", "wrong-bytes", "do not use this server"},
    {"password_file", "password-file", "name a readable file that holds the password alone"},
    {"ca_file:", "tls-files",
     "name a PEM file with the authority's certificates that larderd's user can read"},
    {"cert_file:", "tls-files",
     "name a PEM file with larderd's certificate that larderd's user can read"},
    {"key_file:", "tls-files", "name the PEM file with the key of cert_file, without a passphrase"},
    {"hostname mismatch", "certificate-name",
     "name the host as the certificate does, or set backend.server_name (--server-name) to that "
     "name"},
    {"IP address mismatch", "certificate-name",
     "the certificate does not have this address: set backend.server_name (--server-name) to a "
     "name in the certificate"},
    {"has expired", "certificate-date", "renew the server's certificate"},
    {"not yet valid", "certificate-date",
     "the server's certificate is not valid yet, or this machine's clock is wrong"},
    {"the server's certificate", "certificate-authority",
     "an authority unknown to this machine signed the certificate: set backend.ca_file (--ca-file) "
     "to the authority's certificate"},
    {"wrong version number", "no-tls",
     "this port does not speak TLS: write redis://, or the server's tls-port"},
    {"packet length too long", "no-tls",
     "this port does not speak TLS: write redis://, or the server's tls-port"},
    {"certificate required", "client-certificate",
     "the server requires a client's certificate: set backend.cert_file and backend.key_file, "
     "signed by the server's tls-ca-cert-file"},
    {"unknown ca", "client-certificate",
     "the server refuses larderd's certificate: the certificate must be signed by the server's "
     "tls-ca-cert-file"},
    {"handshake failure", "client-certificate",
     "the server refuses the TLS handshake: the server may require a client's certificate "
     "(backend.cert_file), or other TLS versions"},
    {"TLS: ", "tls", "read the reason in the server's log"},
    {"NOAUTH", "no-password",
     "put the password into a file and name the file in backend.password_file (--password-file); "
     "an ACL user goes into the URL, redis://user@host"},
    {"WRONGPASS", "wrong-password",
     "make the user in the URL and the password in backend.password_file equal to the server's "
     "(ACL LIST)"},
    {"DENIED", "protected-mode",
     "set a password (requirepass, or an ACL user) and the addresses to listen on (bind) at the "
     "server, to end protected mode"},
    {"NOPERM", "rights", ""},
    {"NOPROTO", "protocol", "use Redis 6.2 or newer, or Valkey"},
    {"does not know HELLO", "too-old",
     "use Redis 6.2 or newer, or Valkey; if HELLO is renamed or forbidden, allow HELLO"},
    {"maxclients", "maxclients",
     "raise the server's maxclients: each larderd takes two connections"},
    {"LOADING", "loading", "wait until the server has loaded its data set, and check again"},
    {"BUSY", "busy", "wait for the running script, or end the script (SCRIPT KILL)"},
    {"MASTERDOWN", "replica", "the server is a replica without its master: name the master"},
    {"other bytes", "wrong-bytes", "do not use this server"},
    {"Connection refused", "refused",
     "check that the server runs and listens there (bind and port; tls-port for TLS)"},
    {"No such file", "no-socket",
     "check that the server runs, and that its unixsocket has this path"},
    {"Permission denied", "socket-rights",
     "give larderd's user access to the socket: the server's unixsocketperm, and the folders above "
     "the socket"},
    {"closed the connection", "closed", ""},
    {"Connection reset", "closed", ""},
    {"Broken pipe", "closed", ""},
    {"does not answer", "silent", ""},
    {"broke the protocol", "protocol",
     "the answering server is not a Redis or Valkey, or the port is for TLS"},
}};

// Remedies that depend on the server's role, on TLS, or on the failed step.
std::string remedy_of(const Reason& reason, const Seen& seen) {
  // Sentinels have users and passwords of their own, so the remedies of the servers would mislead.
  if (seen.kind == remote::Kind::kSentinel) {
    if (reason.id == "rights")
      return "give the user the rights to ask for the master: " +
             least_sentinel_rights(seen.backend);
    if (reason.id == "no-password" || reason.id == "wrong-password")
      return "the Sentinels have users of their own: backend.sentinel_user and "
             "backend.sentinel_password_file (--sentinel-user, --sentinel-password-file)";
  }
  if (!reason.remedy.empty()) return std::string(reason.remedy);
  // Short commands worked, and the first large value ended the connection: a limit on sizes.
  if (reason.id == "closed" && seen.facts.ended == Step::kUse)
    return "the server closed the connection at values of 2 MiB: CONFIG SET "
           "client-output-buffer-limit \"normal 0 0 0\", and "
           "proto-max-bulk-len to its default (512mb); else read the server's log";
  const bool tls = seen.backend.tls;
  if (reason.id == "rights") return "give the user larderd's rights: " + least_rights(seen.backend);
  if (reason.id == "silent")
    return std::string(
               "check the address, firewalls, and whether the server is stopped or overloaded.") +
           // A server without TLS waits for a command and never answers a TLS ClientHello.
           (tls ? " A port without TLS is silent, too: redis://" : "");
  return tls ? "check whether the server requires a client's certificate (backend.cert_file); the "
               "server's log has the reason"
             : "check whether the port is for TLS (rediss://), or protected mode is on; the "
               "server's log has the reason";
}

// CONFIG GET databases may be forbidden, so the number may be unknown.
std::string database_remedy(const Seen& seen) {
  if (!seen.facts.databases) return "name a database of the server, or remove the number";
  return "the server has " + std::to_string(*seen.facts.databases) +
         " databases, counted from 0: name one, or set `databases`";
}

}  // namespace

Diagnostic failure_finding(const Seen& seen) {
  const std::string& text = seen.facts.failure.text();
  // No secret can be in the text: larderd's errors name files and hosts, and a server's words only
  // from a known list.
  const auto unusable = [&text](std::string_view id, const std::string& remedy) {
    return Diagnostic{Weight::kUnusable, std::string(id), text, remedy};
  };
  // Before the table: its remedy needs the number of databases.
  if (text.find("refuses to select") != std::string::npos)
    return unusable("no-database", database_remedy(seen));
  for (const Reason& reason : kReasons)
    if (text.find(reason.sign) != std::string::npos)
      return unusable(reason.id, remedy_of(reason, seen));
  if (seen.facts.ended == Step::kConnect)
    return unusable("unreachable",
                    "check the name or address, and whether this machine can reach the server");
  // A new text: the finding still shows the words of larderd, without a remedy.
  return unusable("failed", "the server's log may give the reason");
}

}  // namespace larder::backend_check
