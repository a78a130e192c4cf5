#include "sidecar/pages/routes.h"

#include <httplib.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "sidecar/config/values.h"
#include "sidecar/http/answer.h"
#include "sidecar/pages/metrics.h"
#include "sidecar/pages/status_json.h"

namespace larder::pages {
namespace {

// The longest wait of an admin verb for the event loop. Other clients of the endpoint wait
// meanwhile, since one thread answers all.
constexpr std::uint32_t kVerbDeadlineMs = 1000;

constexpr const char* kPaths =
    ": GET /metrics, /healthz, /readyz, /v1/status; POST /v1/drop?namespace=ID, /v1/clear, "
    "/v1/trace, /v1/prefetch, /v1/pin, /v1/unpin, /v1/evict on loopback and on the admin socket";

// cpp-httplib parses and formats through its Stream interface. This stream reads a request that the
// endpoint has received whole, and collects the answer.
class MemoryStream final : public httplib::Stream {
 public:
  explicit MemoryStream(std::string_view request) : request_(request) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  // 0 bytes at the end of the request is the end of the stream for cpp-httplib.
  ssize_t read(char* data, size_t size) override {
    const std::size_t count = std::min(size, request_.size());
    std::memcpy(data, request_.data(), count);
    request_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* data, size_t size) override {
    answer.append(data, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  // There is no socket here: the endpoint owns sockets and deadlines.
  socket_t socket() const override { return INVALID_SOCKET; }

  std::string answer;

 private:
  std::string_view request_;
};

int http_status(Code code) {
  switch (code) {
    case Code::kOk: return 200;
    case Code::kInvalidArgument:
    case Code::kOutOfRange: return 400;
    case Code::kNotFound: return 404;
    case Code::kFailedPrecondition: return 409;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded: return 503;
    default: return 500;  // a bug or the operating system; the text names the cause
  }
}

void answer_text(httplib::Response& response, int status, const std::string& text) {
  response.status = status;
  response.set_content(text + "\n", "text/plain");
}

// The answer of an admin verb: its JSON.
// `shared` lets larderctl warn: other larderd may still have the chunks in their own memory.
Result<std::string> dropped(const Result<std::uint64_t>& chunks, const stats::Control& control) {
  if (!chunks.ok()) return chunks.status();
  return dropped_json(*chunks, !control.snapshot().backend.place.empty());
}
Result<std::string> acted(stats::Control& control, protocol::Verb verb, const std::string& body) {
  const Result<ActRequest> wanted = read_act_request(body);
  if (!wanted.ok()) return wanted.status();
  // Waits for the loop: kVerbDeadlineMs at most, then the verb has not happened or goes on without
  // this client.
  const Result<protocol::ActCounts> done =
      control.act(verb, wanted->namespace_id, wanted->hashes, kVerbDeadlineMs);
  if (!done.ok()) return done.status();
  return acted_json(*done);
}

// Look-ups from number `from` on; without `from`, look-ups from now on.
Result<std::string> traced(stats::Control& control, const std::string& from) {
  std::uint64_t number = 0;
  if (!from.empty() && !config::parse_number(from, number))
    return Status(Code::kInvalidArgument, "from is the number that the last answer called next");
  return trace_json(control.trace(from.empty() ? std::nullopt : std::optional(number)));
}

void answer_verb(httplib::Response& response, const Result<std::string>& answer) {
  response.status = http_status(answer.status().code());
  response.set_content(answer.ok() ? *answer : error_json(answer.status().to_string()),
                       "application/json");
}

}  // namespace

class Routes::MemoryServer final : public httplib::Server {
 public:
  MemoryServer(stats::Control& control, const http::Counters& counters, Admin admin)
      : control_(control), counters_(counters) {
    // Reads take a copy of the last snapshot and wait for no other thread, so a scrape works even
    // if the loop hangs.
    add_page("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(metrics_text(control_.snapshot(), control_.ready(), counters_),
                           "text/plain; version=0.0.4");
    });
    add_page("/healthz", [this](const httplib::Request&, httplib::Response& response) {
      // 503 makes a liveness probe restart larderd. A busy loop turns within milliseconds, so 2 s
      // without a turn is a hang.
      const bool healthy = control_.healthy();
      answer_text(response, healthy ? 200 : 503,
                  healthy ? "ok" : "the event loop has not turned for 2 s");
    });
    add_page("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      const bool ready = control_.ready();
      answer_text(response, ready ? 200 : 503, ready ? "ready" : "engines cannot attach yet");
    });
    add_page("/v1/status", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(status_json(control_.snapshot(), control_.healthy(), control_.ready()),
                           "application/json");
    });
    // cpp-httplib answers 404 for a known path with another method: 405 and Allow name the method.
    set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (response.status != 404 || !response.body.empty()) return;
      const auto known = methods_.find(request.path);
      if (known == methods_.end())
        return answer_text(response, 404, "nothing at " + request.path + kPaths);
      response.set_header("Allow", known->second);
      answer_text(response, 405, request.path + " takes no " + request.method + kPaths);
    });
    // Admin verbs are POST: a GET could be sent by a prefetching browser, a crawler or an image in
    // a page.
    add_verb("/v1/drop", admin, [this](const httplib::Request& request) -> Result<std::string> {
      const std::string id = request.get_param_value("namespace");
      if (id.empty())
        return Status(Code::kInvalidArgument,
                      "which one? POST /v1/drop?namespace=ID (larderctl status lists the ids)");
      return dropped(control_.drop_namespace(id, kVerbDeadlineMs), control_);
    });
    add_verb("/v1/clear", admin, [this](const httplib::Request&) {
      return dropped(control_.clear(kVerbDeadlineMs), control_);
    });
    add_verb("/v1/trace", admin, [this](const httplib::Request& request) {
      return traced(control_, request.get_param_value("from"));
    });
    static constexpr std::pair<const char*, protocol::Verb> kActs[] = {
        {"/v1/prefetch", protocol::Verb::kPrefetch},
        {"/v1/pin", protocol::Verb::kPin},
        {"/v1/unpin", protocol::Verb::kUnpin},
        {"/v1/evict", protocol::Verb::kEvict}};
    for (const auto& [path, verb] : kActs)
      add_verb(path, admin, [this, verb = verb](const httplib::Request& request) {
        return acted(control_, verb, request.body);
      });
  }

  std::string respond(const std::string& request) {
    // cpp-httplib has no limits of its own (docs/design/dependencies.md). The library therefore
    // parses whole, bounded requests from memory and never sees a socket.
    MemoryStream stream(request);
    bool closed = false;
    // `true`: close the connection after the answer. The endpoint decides about connections itself.
    process_request(stream, true, closed, nullptr);
    return std::move(stream.answer);
  }

 private:
  void add_page(const char* path, Handler answer) {
    methods_[path] = "GET, HEAD";
    Get(path, std::move(answer));
  }
  void add_verb(const char* path, Admin admin,
                std::function<Result<std::string>(const httplib::Request&)> act) {
    methods_[path] = "POST";
    Post(path, [admin, act = std::move(act)](const httplib::Request& request,
                                             httplib::Response& response) {
      // http.listen may be open to the network for Prometheus, and has no authentication.
      if (admin == Admin::kRefused)
        return answer_text(
            response, 403,
            "admin verbs answer on the admin socket and on a loopback http.listen only");
      // A browser sends Origin with each POST of a page. A page that the user visits could
      // otherwise drop the cache through loopback (CSRF).
      if (request.has_header("Origin"))
        return answer_text(response, 403, "admin verbs are not for web pages (Origin)");
      answer_verb(response, act(request));
    });
  }

  stats::Control& control_;
  const http::Counters& counters_;
  std::map<std::string, const char*> methods_;  // of each path
};

Routes::Routes(stats::Control& control, const http::Counters& counters, Admin admin)
    : server_(std::make_unique<MemoryServer>(control, counters, admin)) {}
Routes::~Routes() = default;

std::string Routes::respond(const std::string& request) {
  // cpp-httplib writes no answer to bytes that are no HTTP.
  std::string answer = server_->respond(request);
  return answer.empty() ? http::plain_answer(400, "this is no HTTP request") : answer;
}

}  // namespace larder::pages
