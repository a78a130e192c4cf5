// Answers of a hostile API server, into the real client and its users: lists, watches, the lease,
// certificates, Secrets.
//
// Promises: every call ends, with bounded text; a list or a watch hands on objects only; the lease
// is held only after an accepted write, and never for longer than its duration; no exception
// leaves. Input: operations, each a byte; an answer is a byte for its status, a byte for
// Retry-After, two of its length, its body.
#include <array>

#include "operator/k8s/http_client.h"
#include "operator/k8s/lease.h"
#include "operator/reconcile/backend_secrets.h"
#include "operator/reconcile/node_pages.h"
#include "operator/webhook/certificate_loader.h"
#include "operator/webhook/certificate_manager.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using api::Object;
namespace resources = k8s::resources;

constexpr std::size_t kMostWords = 2048;  // of an error: the server's first KiB, and the subject
constexpr std::array kStatuses{200, 200, 200, 201, 400, 401, 403, 404,
                               409, 410, 422, 429, 500, 503, 301, 0};
constexpr int kMostCalls = 64;
constexpr std::uint64_t kLeaseMs = 12'000;

// Answers by the input; after its end no answer comes.
class HostileServer final : public k8s::Transport {
 public:
  HostileServer(Input& input, base::ManualClock& clock) : input_(input), clock_(clock) {}

  Result<k8s::Response> exchange(const k8s::Request& request) override {
    Result<k8s::Response> response = next();
    wrote_ = request.method != "GET" && response.ok() && response->status < 300;
    return response;
  }
  Result<k8s::Response> stream(const k8s::Request&,
                               const std::function<bool(std::string_view)>& on_bytes) override {
    Result<k8s::Response> response = next();
    if (!response.ok() || response->status != 200) return response;
    const std::string body = std::exchange(response->body, {});
    const std::size_t half = body.size() / 2;
    if (on_bytes(std::string_view(body).substr(0, half)))
      on_bytes(std::string_view(body).substr(half));
    return response;
  }
  // Whether the last exchange was a write that the server took.
  bool wrote() const { return wrote_; }

 private:
  Result<k8s::Response> next() {
    clock_.advance_ms(1);
    if (input_.empty()) return Status(Code::kUnavailable, "nobody there");
    const int status = kStatuses[input_.byte() % kStatuses.size()];
    const std::uint8_t again = input_.byte();
    const std::string body = input_.take_text(input_.take<std::uint16_t>());
    if (status == 0) return Status(Code::kUnavailable, "cut");
    return k8s::Response{status, body,
                         again == 0     ? ""
                         : again == 255 ? "soon"
                                        : std::to_string(again)};
  }

  Input& input_;
  base::ManualClock& clock_;
  bool wrote_ = false;
};

void bounded(const Status& status) {
  must(status.ok() || (!status.text().empty() && status.text().size() <= kMostWords),
       "an error is said in bounded words");
}

class World {
 public:
  explicit World(Input& input)
      : server_(input, clock_),
        client_(server_, clock_,
                {.page = 2,
                 .pause =
                     [this](std::chrono::milliseconds wait, const std::stop_token&) {
                       clock_.advance_ms(static_cast<std::uint64_t>(wait.count()));
                     }}),
        lease_(client_, {.ns = "l", .name = "l", .identity = "me", .duration_ms = kLeaseMs}, clock_,
               clock_),
        manager_(client_, {"l", "tls", "webhook", "larder"}, clock_,
                 [] { return std::int64_t{1'800'000'000}; }) {}

  void step(std::uint8_t op) {
    switch (op % 8) {
      case 0: return list();
      case 1: return watch(client_.watch(resources::kPods, {}, "5", {}, take_event()));
      case 2: return watch(client_.stream(resources::kPods, {}, {}, take_event()));
      case 3: return hold();
      case 4: return bounded(manager_.run_once());
      case 5: return secrets();
      case 6:
        return must(
            reconcile::text_of(reconcile::pages_of_nodes(client_, "2Mi")).size() < (64U << 10),
            "a sentence is bounded");
      default: return writes();
    }
  }

 private:
  void list() {
    const auto version =
        client_.list_into(resources::kPods, {},
                          {[](const Object& item) {
                             must(item.is_object() && api::text_at(item, "kind") == "Pod",
                                  "a list hands on objects of its kind");
                           },
                           [] {}});
    bounded(version.status());
  }
  static std::function<void(k8s::WatchEvent)> take_event() {
    return [](const k8s::WatchEvent& event) {
      must(event.object.is_object(), "an event has an object");
    };
  }
  static void watch(const Status& status) { bounded(status); }
  void hold() {
    const bool held = lease_.held();
    bounded(lease_.step().status);
    must(lease_.left_ms() < kLeaseMs, "a lease is held for less than it lasts");
    must(!lease_.held() || held || server_.wrote(), "the lease is held after an accepted write");
    clock_.advance_ms(kLeaseMs / 4);
  }
  void secrets() {
    bounded(webhook::certificate_in_secret(client_, "l", "tls")().status());
    api::CacheBackend backend{"ml", "redis", "u", 1, {}};
    backend.spec.password = api::SecretKey{"auth", "password"};
    const reconcile::BackendSecrets found = reconcile::read_secrets(client_, backend);
    must(
        found.bytes.size() + (found.missing.empty() ? 0 : 1) + (found.unreadable.empty() ? 0 : 1) ==
            1,
        "the certificate is there, or the error is reported");
  }
  void writes() {
    const Object object{{"metadata", {{"name", "a"}, {"namespace", "ml"}}}};
    bounded(client_.apply(resources::kConfigMaps, object).status());
    bounded(client_.remove(resources::kConfigMaps, "ml", "a", "u"));
  }

  base::ManualClock clock_;
  HostileServer server_;
  k8s::HttpClient client_;
  k8s::LeaderLease lease_;
  webhook::CertificateManager manager_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  World world(input);
  for (int calls = 0; calls < kMostCalls && !input.empty(); ++calls) world.step(input.byte());
  return 0;
}
