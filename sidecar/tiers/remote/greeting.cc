// The first words on a connection: who we are, whom we talk to, and whether it answers.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "sidecar/tiers/remote/error_reply.h"
#include "sidecar/tiers/remote/format.h"
#include "sidecar/tiers/remote/links.h"

namespace larder::remote {
namespace {

constexpr std::size_t kMaxPasswordBytes = 4096;

// Without the newline at its end. A file that is none, a pipe say, must not make us wait.
Result<std::string> read_password(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return Status::from_errno(errno, "remote.password_file: " + path);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return Status(Code::kFailedPrecondition, "remote.password_file: " + path + " is no file");
  std::string text(kMaxPasswordBytes + 1, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return Status::from_errno(errno, "remote.password_file: " + path);
  text.resize(static_cast<std::size_t>(got));
  if (text.size() > kMaxPasswordBytes) return Status(Code::kFailedPrecondition, "remote.password_file: " + path + " is too long");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty()) return Status(Code::kFailedPrecondition, "remote.password_file: " + path + " is empty");
  return text;
}

// What HELLO tells under a name: a list of names and values.
std::string_view told(const Reply& hello, std::string_view name) {
  for (std::size_t i = 0; i + 1 < hello.elements.size(); i += 2)
    if (hello.elements[i].text == name) return hello.elements[i + 1].text;
  return "";
}

// What INFO tells of the server's life; empty: it does not.
std::string run_of(std::string_view info) {
  constexpr std::string_view kName = "\nrun_id:";
  const std::size_t at = info.find(kName);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = info.substr(at + kName.size());
  return std::string(rest.substr(0, rest.find_first_of("\r\n")));
}

Status check_hello(const Reply& hello) {
  if (hello.kind == Reply::Kind::kError && hello.text.starts_with("ERR unknown command"))
    return {Code::kUnsupported, "the server does not know HELLO: it takes Redis 6.2 or newer, or Valkey"};
  if (hello.kind == Reply::Kind::kError && hello.text.starts_with("ERR max number of clients"))
    return {Code::kResourceExhausted, "the server has as many clients as it takes (maxclients)"};
  if (hello.kind == Reply::Kind::kError) return status_of(meaning_of(hello.text));
  const std::string_view mode = told(hello, "mode");
  if (mode == "cluster") return {Code::kFailedPrecondition, "the server is a node of a Cluster, not a standalone one"};
  if (mode == "sentinel") return {Code::kFailedPrecondition, "the server is a Sentinel, not one that keeps data"};
  return {};
}

}  // namespace

// All of it is sent at once; the first answer that is wrong ends it.
void Links::greet(Link& link) {
  link.state = Link::State::kGreeting;
  link.since_ns = link.used_ns = clock_.now_ns();
  std::string password;
  if (!options_.password_file.empty()) {
    Result<std::string> read = read_password(options_.password_file);
    if (!read.ok()) {
      link.greeted = read.status();
      return;
    }
    password = *std::move(read);
  }
  Link* greeted = &link;
  const auto note = [greeted](const Status& status) {
    if (greeted->greeted.ok()) greeted->greeted = status;
  };
  const std::string user = options_.user.empty() ? "default" : options_.user, database = std::to_string(options_.database),
                    probe = probe_key(options_.prefix);
  std::vector<std::string_view> hello{"HELLO", "2"};
  if (!password.empty()) hello.insert(hello.end(), {"AUTH", user, password});
  for (const std::string_view word : {"SETNAME", "larder"}) hello.push_back(word);
  ask_greeting(link, hello, "*", [note](const Status& lost, const Reply& reply) {
    if (lost.ok()) note(check_hello(reply));
  });
  if (options_.database != 0)
    ask_greeting(link, {"SELECT", database}, "+", [note, database](const Status& lost, const Reply& reply) {
      if (lost.ok() && reply.kind == Reply::Kind::kError)
        note({Code::kFailedPrecondition, "remote.database: the server refuses to select " + database});
    });
  ask_greeting(link, {"INFO", "server"}, "$", [greeted](const Status& lost, const Reply& reply) {
    if (lost.ok() && reply.kind == Reply::Kind::kBulk) greeted->run = run_of(reply.text);
  });
  ask_greeting(link, {"GETRANGE", probe, "0", "0"}, "$", [this, greeted, note](const Status& lost, const Reply& reply) {
    if (!lost.ok()) return;
    if (reply.kind == Reply::Kind::kError) note(status_of(meaning_of(reply.text)));
    if (!greeted->greeted.ok()) return;
    greeted->state = Link::State::kReady;
    next_address_ = 0;
    breaker_.succeeded(clock_.now_ns());
    failure_ = {};
    listener_.ready(greeted->run);
  });
  if (of_lane(static_cast<std::size_t>(greeted - links_.data()), Lane::kWrites))
    ask_greeting(link, {"SET", probe, "1", "PX", "1000"}, "+", [this, greeted](const Status& lost, const Reply& reply) {
      if (lost.ok() && greeted->state == Link::State::kReady) listener_.write_answered(reply);
    });
}

void Links::ask_greeting(Link& link, std::vector<std::string_view> words, const char* types, Then then) {
  Request request;
  request.around.before = format_command(words);
  request.expect.types = types;
  request.then = std::move(then);
  link.connection->ask(std::move(request), clock_.now_ns());
}

void Links::ping(Link& link) {
  link.used_ns = clock_.now_ns();
  ask_greeting(link, {"PING"}, "+", nullptr);
}

}  // namespace larder::remote
