// HttpClient: ApiClient over a Transport: paths, retries, pages and watches of the real API server.
//
// A client with a fence refuses every write while the fence is down (kFailedPrecondition). A
// running write ends before the fence comes down, in the client and in the server (?timeout). Reads
// and calls for the Lease need no fence.
//
// The client obeys the server: it waits for Retry-After, repeats 429 and 5xx with growing pauses,
// returns 409 to the caller, lists again after 410, and reads the credentials again after 401.
//
// Thread-safe, like its transport: calls and watches of several threads run in parallel.
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
  std::chrono::milliseconds deadline{30'000};  // for each call
  const Fence* fence = nullptr;                // for writes; null: no fence
  std::stop_token stop = {};                   // ends running calls; new ones get kUnavailable
  Metrics* metrics = nullptr;                  // rest_client_requests_total
  unsigned page = 100;                         // objects per page of a list
  // Waits for the time or the stop. Tests replace the function.
  std::function<void(std::chrono::milliseconds, const std::stop_token&)> pause = nullptr;
};

class HttpClient final : public ApiClient {
 public:
  // The arguments outlive the client.
  HttpClient(Transport& transport, const base::Clock& clock, ClientOptions options = {});

  Result<api::Object> get(const Resource& resource, const std::string& ns,
                          const std::string& name) override;
  Result<List> list(const Resource& resource, const Selector& selector) override;
  Result<std::string> list_into(const Resource& resource, const Selector& selector,
                                const ListSink& sink) override;
  Result<api::Object> create(const Resource& resource, const api::Object& object) override;
  Result<api::Object> replace(const Resource& resource, const api::Object& object) override;
  Result<api::Object> apply(const Resource& resource, const api::Object& object,
                            const std::string& subresource = "") override;
  Result<api::Object> merge(const Resource& resource, const std::string& ns,
                            const std::string& name, const api::Object& patch) override;
  Status remove(const Resource& resource, const std::string& ns, const std::string& name,
                const std::string& uid = "") override;
  Status watch(const Resource& resource, const Selector& selector, const std::string& version,
               std::stop_token stop, const std::function<void(WatchEvent)>& on_event) override;
  Status stream(const Resource& resource, const Selector& selector, std::stop_token stop,
                const std::function<void(WatchEvent)>& on_event) override;
  Result<api::Object> get_path(const std::string& path) override;

 private:
  struct Call {
    std::string what;  // for errors: "apply DaemonSet ml/a"
    Request request;
    Query query = {};
    bool write = false;
    std::vector<int> accept = {};  // HTTP statuses that are no error for this call
  };
  struct Page {
    bool expired = false;  // 410: the list became too old to continue
    std::string next = {}, version = {};
  };

  Result<Response> call(Call call);
  Result<api::Object> call_object(Call call);
  Result<Response> try_once(const Call& call, std::uint64_t deadline_ms);
  Result<Page> list_page(const Resource& resource, const Selector& selector,
                         const std::string& from, unsigned limit, const ListSink& sink);
  Result<Page> list_pages(const Resource& resource, const Selector& selector, unsigned& limit,
                          const ListSink& sink);
  struct Watched {
    Status status;
    bool answered = false;  // the server sent `status`; false: e.g. a broken connection
    int http_status = 0;    // of the answer or of the error event that ended the stream; 0: none
  };
  Watched watch_from(const Resource& resource, const Selector& selector, Query query,
                     std::stop_token stop, const std::function<void(WatchEvent)>& on_event);
  static Result<api::Object> parsed(const Result<Response>& response, const std::string& what);
  void count(const Request& request, const Result<Response>& response);
  std::uint32_t random();

  Transport& transport_;
  const base::Clock& clock_;
  const ClientOptions options_;
  std::atomic<std::uint32_t> random_;
};

}  // namespace larder::k8s
