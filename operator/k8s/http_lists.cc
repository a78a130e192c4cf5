// HttpClient's lists, in pages, and its watches.
#include <algorithm>

#include "operator/k8s/answers.h"
#include "operator/k8s/http_client.h"
#include "operator/k8s/watch_decoder.h"
#include "sidecar/base/nap.h"

namespace larder::k8s {
namespace {

constexpr int kMostBeginnings = 3;  // restarts of a list that expires between pages
constexpr std::chrono::minutes kMostSilence{5};
constexpr unsigned kWatchSeconds = 300;          // the server ends a watch after 1 to 2 times this
constexpr std::chrono::seconds kWatchGrace{30};  // then the client ends it

// Selectors of labels are left out: the text goes into throttled log lines, where equal texts are
// counted.
std::string what_of(const char* verb, const Resource& resource, const Selector& selector) {
  return std::string(verb) + " " + resource.plural +
         (selector.ns.empty() ? "" : " of " + selector.ns);
}

// Whether a server cannot stream a list. 422 (400 of older servers) and the like refuse the
// parameters. A server with an etcd before 3.4.25 answers 500 and names the missing feature; other
// 500s say nothing about streaming.
bool says_it_cannot_stream(int http_status, const std::string& text) {
  if (http_status == 500) return text.find("RequestWatchProgress") != std::string::npos;
  return http_status == 400 || http_status == 405 || http_status == 406 || http_status == 422;
}

}  // namespace

Result<HttpClient::Page> HttpClient::list_page(const Resource& resource, const Selector& selector,
                                               const std::string& from, unsigned limit,
                                               const ListSink& sink) {
  // 410 is accepted: the list begins anew and the caller gets no error.
  Call call{what_of("list", resource, selector), {}, query_of(selector), false, {410}};
  call.request.path = path_of(resource, selector.ns);
  call.query.emplace_back("limit", std::to_string(limit));
  call.query.emplace_back("continue", from);
  const std::string what = call.what;
  const Result<Response> response = this->call(std::move(call));
  if (response.ok() && response->status == 410) return Page{.expired = true};
  Result<api::Object> list = parsed(response, what);
  if (!list.ok()) return list.status();
  const auto items = list->find("items");
  // Go encodes a nil list as null.
  if (items == list->end() || !(items->is_array() || items->is_null()))
    return Status(Code::kInvalidArgument, what + ": the answer has no items");
  for (api::Object& item : *items) {
    if (!item.is_object())
      return Status(Code::kInvalidArgument, what + ": an item is not an object");
    // The API server leaves apiVersion and kind out of the items of a list. Events and logs need
    // both.
    item["apiVersion"] = api_version(resource);
    item["kind"] = resource.kind;
    sink.take(std::move(item));
  }
  return Page{false, api::text_at(*list, "metadata.continue"),
              api::text_at(*list, "metadata.resourceVersion")};
}

// All pages. `expired`: the list became too old between two pages. A page above the limit of bytes
// is requested again in smaller pages.
Result<HttpClient::Page> HttpClient::list_pages(const Resource& resource, const Selector& selector,
                                                unsigned& limit, const ListSink& sink) {
  std::string from;
  for (;;) {
    Result<Page> page = list_page(resource, selector, from, limit, sink);
    // kOutOfRange: the page is above api::kMostBytes, e.g. pods with large annotations. The smaller
    // limit stays for the next pages.
    if (!page.ok() && page.status().code() == Code::kOutOfRange && limit > 1) {
      limit /= 2;
      continue;
    }
    if (!page.ok() || page->expired || page->next.empty()) return page;
    // A server that repeats its continue token would keep the operator listing for ever.
    if (page->next == from)
      return Status(Code::kInvalidArgument,
                    what_of("list", resource, selector) + ": the pages do not end");
    from = page->next;
  }
}

Result<std::string> HttpClient::list_into(const Resource& resource, const Selector& selector,
                                          const ListSink& sink) {
  unsigned limit = std::max(1U, options_.page);
  for (int beginnings = 0; beginnings < kMostBeginnings; ++beginnings) {
    // The sink has objects of the first try, which may be gone by now.
    if (beginnings > 0) sink.begin_anew();
    Result<Page> page = list_pages(resource, selector, limit, sink);
    if (!page.ok()) return page.status();
    if (!page->expired) return std::move(page->version);
  }
  return Status(Code::kUnavailable, what_of("list", resource, selector) +
                                        ": the list was too old before the last page, " +
                                        std::to_string(kMostBeginnings) + " times");
}

Result<List> HttpClient::list(const Resource& resource, const Selector& selector) {
  List list;
  Result<std::string> version =
      list_into(resource, selector,
                {[&list](api::Object object) { list.items.push_back(std::move(object)); },
                 [&list] { list.items.clear(); }});
  if (!version.ok()) return version.status();
  list.version = std::move(*version);
  return list;
}

HttpClient::Watched HttpClient::watch_from(const Resource& resource, const Selector& selector,
                                           Query query, std::stop_token stop,
                                           const std::function<void(WatchEvent)>& on_event) {
  const std::string what = what_of("watch", resource, selector);
  // By chance, so that the watches of all resources and replicas do not begin again together.
  // 300 to 600 seconds, as client-go's reflectors do.
  const unsigned seconds = kWatchSeconds + random() % kWatchSeconds;
  for (const auto& part : query_of(selector)) query.push_back(part);
  query.insert(query.end(), {{"watch", "1"},
                             {"allowWatchBookmarks", "true"},
                             {"timeoutSeconds", std::to_string(seconds)}});
  // The watch ends with its own stop and with that of the client: a request takes one token only.
  std::stop_source either;
  const auto end = [&either] { either.request_stop(); };
  const std::stop_callback on_stop(stop, end);
  const std::stop_callback on_client_stop(options_.stop, end);

  Request request{.path = path_of(resource, selector.ns) + query_of(query),
                  .silence = kMostSilence,
                  .stop = either.get_token()};
  // A server that ignores timeoutSeconds must not hold the watch for ever.
  request.timeout = std::chrono::seconds(seconds) + kWatchGrace;
  WatchDecoder decoder(on_event);
  Status decoded;
  const Result<Response> response = transport_.stream(request, [&](std::string_view bytes) {
    decoded = decoder.feed(bytes);
    return decoded.ok() && !either.stop_requested();
  });
  count(request, response);
  // A stop looks like a broken connection, and is no error.
  if (either.stop_requested()) return {};
  // The decoder's error comes first: the transport reports only that the reader has ended the
  // stream.
  if (!decoded.ok()) return {decoded, true, decoder.error_status()};
  if (!response.ok())
    return {Status(response.status().code(), what + ": " + response.status().text())};
  if (Status status = status_of(*response, what); !status.ok()) {
    // The pause belongs to the watch, so the informer's own pauses need not know the header.
    if (const auto requested = retry_after(response->retry_after))
      (options_.pause ? options_.pause : base::nap)(*requested, either.get_token());
    return {status, true, response->status};
  }
  // Servers end every watch after a time. A cut inside a line means a lost event, and the watch
  // begins again from its last version.
  if (decoder.between_lines()) return {};  // the server ended the watch in order
  return {Status(Code::kUnavailable, what + ": cut in the middle of an event")};
}

Status HttpClient::watch(const Resource& resource, const Selector& selector,
                         const std::string& version, std::stop_token stop,
                         const std::function<void(WatchEvent)>& on_event) {
  return watch_from(resource, selector, {{"resourceVersion", version}}, std::move(stop), on_event)
      .status;
}

// WatchList, alpha since Kubernetes 1.27: the server takes the two parameters only together.
Status HttpClient::stream(const Resource& resource, const Selector& selector, std::stop_token stop,
                          const std::function<void(WatchEvent)>& on_event) {
  bool complete = false;
  Watched watched = watch_from(
      resource, selector, {{"sendInitialEvents", "true"}, {"resourceVersionMatch", "NotOlderThan"}},
      stop, [&](WatchEvent event) {
        complete = complete || event.initial_end;
        on_event(std::move(event));
      });
  Status& status = watched.status;
  // After the bookmark the server has proved that it streams. Later errors are those of any watch.
  if (complete || stop.stop_requested() || options_.stop.stop_requested()) return status;
  // Other failures say nothing about the server's features. An older server that ignores the
  // parameters never sends the bookmark.
  if (!status.ok() &&
      !(watched.answered && says_it_cannot_stream(watched.http_status, status.text())))
    return status;
  return {Code::kUnsupported, status.ok() ? "the server does not stream lists" : status.text()};
}

}  // namespace larder::k8s
