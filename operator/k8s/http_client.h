// HttpClient: ApiClient over a Transport: paths, retries, pages and watches of the real API server.
//
// With a fence it is the fenced client: every write is refused unless the fence is up (kFailedPrecondition), and one under way is
// cut, by us and by the server (?timeout), before it comes down. Leases and reads need none.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/k8s/api_client.h"
#include "operator/k8s/paths.h"
#include "operator/k8s/transport.h"
#include "sidecar/base/clock.h"

namespace larder::k8s {

class Metrics;

struct ClientOptions {
  std::chrono::milliseconds deadline{30'000};  // of each call
  const Fence* fence = nullptr;                // of writes
  std::stop_token stop = {};                   // ends calls under way and refuses new ones (kUnavailable)
  Metrics* metrics = nullptr;                  // rest_client_requests_total
  unsigned page = 100;                         // objects asked for at once
  // Waits, or until the stop; tests need not.
  std::function<void(std::chrono::milliseconds, const std::stop_token&)> pause = nullptr;
};

class HttpClient final : public ApiClient {
 public:
  // All that is referred to outlives it.
  HttpClient(Transport& transport, const base::Clock& clock, ClientOptions options = {});

  Result<api::Object> get(const Resource& resource, const std::string& ns, const std::string& name) override;
  Result<List> list(const Resource& resource, const Selector& selector) override;
  Result<std::string> list_into(const Resource& resource, const Selector& selector, const ListSink& sink) override;
  Result<api::Object> create(const Resource& resource, const api::Object& object) override;
  Result<api::Object> replace(const Resource& resource, const api::Object& object) override;
  Result<api::Object> apply(const Resource& resource, const api::Object& object, const std::string& subresource = "") override;
  Result<api::Object> merge(const Resource& resource, const std::string& ns, const std::string& name,
                            const api::Object& patch) override;
  Status remove(const Resource& resource, const std::string& ns, const std::string& name, const std::string& uid = "") override;
  Status watch(const Resource& resource, const Selector& selector, const std::string& version, std::stop_token stop,
               const std::function<void(WatchEvent)>& on_event) override;
  Status stream(const Resource& resource, const Selector& selector, std::stop_token stop,
                const std::function<void(WatchEvent)>& on_event) override;
  Result<api::Object> get_path(const std::string& path) override;

 private:
  struct Call {
    std::string what;  // "apply DaemonSet ml/a", for errors
    Request request;
    Query query = {};
    bool write = false;
    std::vector<int> accept = {};  // answers that are errors elsewhere
  };
  struct Page {
    bool expired = false;  // 410: where it was to go on is too old
    std::string next = {}, version = {};
  };

  Result<Response> call(Call call);
  Result<api::Object> call_object(Call call);
  Result<Response> try_once(const Call& call, std::uint64_t deadline_ms);
  Result<Page> list_page(const Resource& resource, const Selector& selector, const std::string& from, unsigned limit,
                         const ListSink& sink);
  Result<Page> list_pages(const Resource& resource, const Selector& selector, unsigned& limit, const ListSink& sink);
  struct Watched {
    Status status;
    bool answered = false;  // the status is the server's own word, not a broken connection's
    int http_status = 0;    // of the answer, or of the error that ended its stream; 0: neither
  };
  Watched watch_from(const Resource& resource, const Selector& selector, Query query, std::stop_token stop,
                     const std::function<void(WatchEvent)>& on_event);
  static Result<api::Object> parsed(const Result<Response>& response, const std::string& what);
  void count(const Request& request, const Result<Response>& response);
  std::uint32_t random();

  Transport& transport_;
  const base::Clock& clock_;
  const ClientOptions options_;
  std::atomic<std::uint32_t> random_;
};

}  // namespace larder::k8s
