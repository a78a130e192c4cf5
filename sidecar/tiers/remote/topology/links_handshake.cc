// The handshake of a connection: authentication, the role of the server, and a test of reads and
// writes.
#include "sidecar/tiers/remote/format.h"
#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/resp/handshake.h"
#include "sidecar/tiers/remote/topology/links.h"

namespace larder::remote {
namespace {

Status check_hello(Kind kind, const Reply& hello) {
  if (Status refusal = refusal_of(hello); !refusal.ok()) return refusal;
  return role_mismatch(kind, map_field(hello, "mode"), map_field(hello, "role"));
}

// Whether the test read shows a working server. A node of a Cluster may redirect the key.
Status check_read(Kind kind, const Reply& reply) {
  if (reply.kind != Reply::Kind::kError) return {};
  const ErrorMeaning& meaning = meaning_of(reply.text);
  if (of_cluster(kind) && (meaning.code == "MOVED" || meaning.code == "ASK")) return {};
  return status_of(meaning);
}

}  // namespace

// Sends all commands of the handshake at once; the first wrong reply ends the handshake.
//
// The password is read at each handshake, so a rotated Secret works without a restart (F-178). The
// name shows in CLIENT LIST, where an operator looks for the source of connections. The test write
// goes over a write connection only: a read-only user should still read.
void Links::handshake(Link& link) {
  link.state = Link::State::kHandshake;
  link.since_ns = link.used_ns = clock_.now_ns();
  const bool sentinel = kind_ == Kind::kSentinel;
  const std::string& password_file =
      sentinel ? options_.sentinel_password_file : options_.password_file;
  const std::string& named = sentinel ? options_.sentinel_user : options_.user;
  std::string password;
  if (!password_file.empty()) {
    Result<std::string> read = read_password(
        sentinel ? "backend.sentinel_password_file" : "backend.password_file", password_file);
    if (!read.ok()) {
      link.handshaken = read.status();
      return;
    }
    password = *std::move(read);
  }
  Link* handshaken = &link;
  const auto note = [handshaken](const Status& status) {
    if (handshaken->handshaken.ok()) handshaken->handshaken = status;
  };
  const std::string user = named.empty() ? "default" : named,
                    database = std::to_string(options_.database),
                    probe = probe_key(options_.prefix);
  std::vector<std::string_view> hello{"HELLO", "2"};
  if (!password.empty()) hello.insert(hello.end(), {"AUTH", user, password});
  for (const std::string_view word : {"SETNAME", "larder"}) hello.push_back(word);
  ask_handshake(link, hello, "*", [note, kind = kind_](const Status& lost, const Reply& reply) {
    if (lost.ok()) note(check_hello(kind, reply));
  });
  if (options_.database != 0 && !sentinel)
    ask_handshake(link, {"SELECT", database}, "+",
                  [note, database](const Status& lost, const Reply& reply) {
                    if (lost.ok() && reply.kind == Reply::Kind::kError)
                      note({Code::kFailedPrecondition,
                            "backend.database: the server refuses to select " + database});
                  });
  // The run_id tells a restarted server from a lost connection. A user without INFO is served all
  // the same.
  ask_handshake(link, {"INFO", "server"}, "$",
                [handshaken](const Status& lost, const Reply& reply) {
                  if (lost.ok() && reply.kind == Reply::Kind::kBulk)
                    handshaken->run = info_value(reply.text, "run_id");
                });
  if (kind_ == Kind::kReplica)  // mutation: replica-readonly
    ask_handshake(link, {"READONLY"}, "+", [note](const Status& lost, const Reply& reply) {
      if (lost.ok() && reply.kind == Reply::Kind::kError) note(status_of(meaning_of(reply.text)));
    });
  const std::vector<std::string_view> read =
      sentinel ? std::vector<std::string_view>{"PING"}
               : std::vector<std::string_view>{"GETRANGE", probe, "0", "0"};
  ask_handshake(link, read, sentinel ? "+" : "$",
                [this, handshaken, note](const Status& lost, const Reply& reply) {
                  if (!lost.ok()) return;
                  note(check_read(kind_, reply));
                  if (!handshaken->handshaken.ok()) return;
                  served(*handshaken);
                  // The probe key belongs to one node of a Cluster, so another node's answer says
                  // nothing about its health.
                  if (!of_cluster(kind_)) listener_.answered(Lane::kReads, reply, false);
                });
  const bool writes = of_lane(static_cast<std::size_t>(handshaken - links_.data()), Lane::kWrites);
  if (writes && !sentinel && !of_cluster(kind_))
    ask_handshake(link, {"SET", probe, "1", "PX", "1000"}, "+",
                  [this, handshaken](const Status& lost, const Reply& reply) {
                    if (lost.ok() && handshaken->state == Link::State::kReady)
                      listener_.answered(Lane::kWrites, reply, false);
                  });
}

// Without a known run_id, any gap may have been a restart of the server.
void Links::served(Link& link) {
  const bool away = !ready();
  link.state = Link::State::kReady;
  link.since_ns = clock_.now_ns();
  next_address_ = 0;
  // Not at the connect: a server that accepts and then refuses the password must not be tried
  // without pauses.
  breaker_.succeeded(clock_.now_ns());
  failure_ = {};
  const bool other = run_ && (link.run != *run_ || (link.run.empty() && away));
  run_ = link.run;
  if (other) listener_.other_life();
  listener_.ready();
}

void Links::ask_handshake(Link& link, std::vector<std::string_view> words, const char* types,
                          Then then) {
  Request request;
  request.around.before = format_command(words);
  request.expect.types = types;
  request.then = std::move(then);
  link.connection->ask(std::move(request), clock_.now_ns());
}

void Links::ping(Link& link) {
  link.used_ns = clock_.now_ns();
  ask_handshake(link, {"PING"}, "+", nullptr);
}

}  // namespace larder::remote
