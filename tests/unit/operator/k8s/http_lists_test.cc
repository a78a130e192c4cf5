#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/operator/k8s/client_fixture.h"

namespace larder::k8s {
namespace {

std::string item(const std::string& name, std::size_t padding = 0) {
  return R"({"metadata":{"namespace":"ml","name":")" + name + R"("},"pad":")" +
         std::string(padding, 'x') + "\"}";
}

std::string page(const std::string& items, const std::string& next,
                 const std::string& version = "77") {
  return R"({"kind":"PodList","metadata":{"resourceVersion":")" + version + R"(","continue":")" +
         next + R"("},"items":[)" + items + "]}";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kExpired =
    R"({"kind":"Status","code":410,"reason":"Expired","message":"too old"})";

TEST(HttpListTest, PagesAreJoinedIntoOneList) {
  ClientFixture fixture(each_request([](Peer& peer, const std::string& request) {
                          EXPECT_TRUE(has(first_line(request), "limit=2")) << request;
                          EXPECT_TRUE(has(first_line(request), "labelSelector=a%3Db")) << request;
                          if (has(request, "continue=t%2F2"))
                            return peer.answer(page(item("c"), ""));
                          peer.answer(page(item("a") + "," + item("b"), "t/2"));
                        }),
                        {.page = 2});
  const Result<List> list = fixture.client->list(resources::kPods, {"ml", "a=b", ""});
  ASSERT_TRUE(list.ok()) << list.status().to_string();
  ASSERT_EQ(list->items.size(), 3U);
  EXPECT_EQ(api::name_of(list->items[2]), "c");
  EXPECT_EQ(list->items[0]["kind"], "Pod");
  EXPECT_EQ(list->items[0]["apiVersion"], "v1");
  EXPECT_EQ(list->version, "77");
}

TEST(HttpListTest, ExpiredContinueTokenRestartsTheList) {
  int asked = 0;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string& request) {
    ++asked;
    if (has(request, "continue=old")) return peer.answer(kExpired, "410 Gone");
    if (has(request, "continue=")) return peer.answer(page(item("d"), ""));
    peer.answer(asked == 1 ? page(item("deleted meanwhile"), "old", "1")
                           : page(item("c"), "new", "9"));
  }));
  const Result<List> list = fixture.client->list(resources::kPods, {});
  ASSERT_TRUE(list.ok()) << list.status().to_string();
  ASSERT_EQ(list->items.size(), 2U);
  EXPECT_EQ(api::name_of(list->items[0]), "c");
}

TEST(HttpListTest, RepeatedlyExpiredListFails) {
  ClientFixture fixture(each_request([&](Peer& peer, const std::string& request) {
    if (has(request, "continue=old")) return peer.answer(kExpired, "410 Gone");
    peer.answer(page(item("a"), "old"));
  }));
  EXPECT_EQ(fixture.client->list(resources::kPods, {}).status().code(), Code::kUnavailable);
}

TEST(HttpListTest, EndlessPagesAreRefused) {
  ClientFixture fixture(
      each_request([&](Peer& peer, const std::string&) { peer.answer(page(item("a"), "same")); }));
  EXPECT_EQ(fixture.client->list(resources::kPods, {}).status().code(), Code::kInvalidArgument);
}

TEST(HttpListTest, TooLargePageIsRequestedInSmallerPages) {
  // Four objects of 3 MiB: all four are too much, two fit.
  ClientFixture fixture(each_request([&](Peer& peer, const std::string& request) {
                          const std::string line = first_line(request);
                          const std::size_t from = has(line, "continue=2") ? 2 : 0;
                          const std::size_t to = has(line, "limit=4") ? 4 : from + 2;
                          std::string items;
                          for (std::size_t i = from; i < to; ++i)
                            items += (i > from ? "," : "") + item(std::to_string(i), 3 << 20);
                          peer.answer(page(items, to < 4 ? std::to_string(to) : ""));
                        }),
                        {.page = 4});
  const Result<List> list = fixture.client->list(resources::kPods, {});
  ASSERT_TRUE(list.ok()) << list.status().to_string();
  ASSERT_EQ(list->items.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(api::name_of(list->items[i]), std::to_string(i));
}

TEST(HttpListTest, MalformedListIsAnError) {
  for (const std::string body :
       {"{}", R"({"items":{}})", R"({"items":[1]})", R"({"items":[[]]})"}) {
    ClientFixture fixture(each_request([&](Peer& peer, const std::string&) { peer.answer(body); }));
    EXPECT_EQ(fixture.client->list(resources::kPods, {}).status().code(), Code::kInvalidArgument)
        << body;
  }
  ClientFixture none(
      each_request([&](Peer& peer, const std::string&) { peer.answer(R"({"items":null})"); }));
  EXPECT_TRUE(none.client->list(resources::kPods, {}).ok());
}

std::string item_event(const std::string& type, const std::string& name) {
  return R"({"type":")" + type + R"(","object":)" + item(name) + "}\n";
}

struct Watched {
  std::vector<std::string> names;
  Status status;
};

Watched watch(HttpClient& client, std::stop_token stop = {}) {
  Watched watched;
  watched.status =
      client.watch(resources::kPods, {"ml", "", ""}, "5", std::move(stop),
                   [&](WatchEvent found) { watched.names.push_back(api::name_of(found.object)); });
  return watched;
}

TEST(HttpWatchTest, EventsSplitAtEveryByteAreRead) {
  ClientFixture fixture(each_request([](Peer& peer, const std::string& request) {
    const std::string line = first_line(request);
    EXPECT_TRUE(has(line, "resourceVersion=5&watch=1&allowWatchBookmarks=true&timeoutSeconds="))
        << line;
    peer.begin_chunks();
    for (const char c : item_event("ADDED", "a") + item_event("DELETED", "b"))
      peer.chunk(std::string(1, c));
    peer.send("0\r\n\r\n");
  }));
  const Watched watched = watch(*fixture.client);
  EXPECT_TRUE(watched.status.ok()) << watched.status.to_string();
  EXPECT_EQ(watched.names, (std::vector<std::string>{"a", "b"}));
}

TEST(HttpWatchTest, TruncatedWatchIsAnError) {
  // In the middle of a chunk, and in the middle of an event whose chunks are whole.
  ClientFixture chunk([](Peer& peer, int) {
    peer.request();
    peer.begin_chunks();
    peer.chunk(item_event("ADDED", "a"));
    peer.send("ff\r\n{");
  });
  const Watched cut = watch(*chunk.client);
  EXPECT_EQ(cut.status.code(), Code::kUnavailable);
  EXPECT_EQ(cut.names, std::vector<std::string>{"a"});
  ClientFixture line([](Peer& peer, int) {
    peer.request();
    peer.begin_chunks();
    peer.chunk(item_event("ADDED", "a") + "{\"type\"");
    peer.send("0\r\n\r\n");
  });
  EXPECT_EQ(watch(*line.client).status.code(), Code::kUnavailable);
}

TEST(HttpWatchTest, ExpiredVersionIsRecognizedInBothForms) {
  ClientFixture status(
      each_request([](Peer& peer, const std::string&) { peer.answer(kExpired, "410 Gone"); }));
  EXPECT_EQ(watch(*status.client).status.code(), Code::kOutOfRange);
  ClientFixture line(each_request([](Peer& peer, const std::string&) {
    peer.begin_chunks();
    peer.chunk(R"({"type":"ERROR","object":)" + kExpired + "}\n");
    peer.await_end();
  }));
  EXPECT_EQ(watch(*line.client).status.code(), Code::kOutOfRange);
}

// The server says when to come again: the client does not come before, and a stop is not kept
// waiting (`pause` ends with it).
// covers F-236
TEST(HttpWatchTest, RetryAfterIsHonoured) {
  for (const bool streamed : {false, true}) {
    ClientFixture fixture(each_request([](Peer& peer, const std::string&) {
      peer.answer("{}", "429 Too Many Requests", "Retry-After: 7\r\n");
    }));
    const Status status = streamed
                              ? fixture.client->stream(resources::kPods, {}, {}, [](WatchEvent) {})
                              : watch(*fixture.client).status;
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
    EXPECT_EQ(fixture.pauses, std::vector<std::chrono::milliseconds>{std::chrono::seconds(7)});
  }
  ClientFixture silent(each_request(
      [](Peer& peer, const std::string&) { peer.answer("{}", "503 Service Unavailable"); }));
  EXPECT_EQ(watch(*silent.client).status.code(), Code::kUnavailable);
  EXPECT_TRUE(silent.pauses.empty()) << "the informer's own pause is enough";
}

TEST(HttpWatchTest, StopRequestEndsASilentWatch) {
  std::stop_source stop;
  ClientFixture fixture([&](Peer& peer, int) {
    peer.request();
    peer.begin_chunks();
    peer.chunk(item_event("ADDED", "a"));
    stop.request_stop();
    peer.await_end();
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(watch(*fixture.client, stop.get_token()).status.ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST(HttpWatchTest, ASilentStreamEnds) {
  ClientFixture fixture([](Peer& peer, int) {
    peer.request();
    peer.begin_chunks();
    peer.await_end();
  });
  const Request request{.path = "/", .silence = std::chrono::milliseconds(100)};
  const Result<Response> response =
      fixture.transport.stream(request, [](std::string_view) { return true; });
  EXPECT_TRUE(response.ok()) << response.status().to_string();
}

TEST(HttpWatchTest, OtherRequestsContinueDuringAWatch) {
  std::stop_source stop;
  ClientFixture fixture(each_request([](Peer& peer, const std::string& request) {
    if (!has(request, "watch=1")) return peer.answer(item("a"));
    peer.begin_chunks();
    peer.await_end();
  }));
  std::jthread watcher([&] { watch(*fixture.client, stop.get_token()); });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(fixture.client->get(resources::kPods, "ml", "a").ok());
  stop.request_stop();
}

// The answers of real servers: one with gate WatchList off, and one with an etcd that is too old.
const std::string kForbidden =
    R"({"kind":"Status","code":422,"reason":"Invalid","message":"ListOptions.meta.k8s.io \"\" is )"
    R"(invalid: sendInitialEvents: )"
    R"(Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is )"
    R"(enabled"})";
const std::string kOldEtcd =
    R"({"kind":"Status","code":500,"reason":"InternalError","message":"a watch stream was )"
    R"(requested by the client but the )"
    R"(required storage feature RequestWatchProgress is disabled"})";

TEST(HttpStreamTest, FallsBackWithoutServerSupport) {
  const auto code_for = [](const ScriptedServer::Script& script) {
    ClientFixture fixture(script);
    return fixture.client->stream(resources::kPods, {}, {}, [](WatchEvent) {}).code();
  };
  for (const auto& [status, body] :
       {std::pair{"422 Unprocessable Entity", kForbidden}, std::pair{"400 Bad Request", kForbidden},
        std::pair{"500 Internal Server Error", kOldEtcd}})
    EXPECT_EQ(
        code_for(each_request([&](Peer& peer, const std::string& request) {
          EXPECT_TRUE(has(request, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
          peer.answer(body, status);
        })),
        Code::kUnsupported)
        << status;
  // As if the API server finds the error behind its first lines.
  EXPECT_EQ(code_for(each_request([](Peer& peer, const std::string&) {
              peer.begin_chunks();
              peer.chunk(R"({"type":"ERROR","object":)" + kOldEtcd + "}\n");
              peer.await_end();
            })),
            Code::kUnsupported);
  // Ignored: a plain watch, which never reports the end of its first list.
  EXPECT_EQ(code_for(each_request([](Peer& peer, const std::string&) {
              peer.begin_chunks();
              peer.chunk(item_event("ADDED", "a"));
              peer.send("0\r\n\r\n");
            })),
            Code::kUnsupported);
  EXPECT_EQ(code_for(each_request(
                [](Peer& peer, const std::string&) { peer.answer("{}", "403 Forbidden"); })),
            Code::kPermissionDenied);
  EXPECT_EQ(code_for([](Peer& peer, int) {
              peer.request();
              peer.begin_chunks();
              peer.send("ff\r\n{");
            }),
            Code::kUnavailable)
      << "a broken connection says no word about the server's features";
}

// A busy server, a silent etcd or an unfilled cache says no word about the server's features: the
// server is asked again.
// covers F-236
TEST(HttpStreamTest, TransientErrorDoesNotDisableStreamedLists) {
  const std::string hiccup =
      R"({"kind":"Status","code":500,"reason":"InternalError","message":"etcdserver: request )"
      R"(timed out"})";
  const auto streamed = [](const ScriptedServer::Script& script) {
    ClientFixture fixture(script);
    return fixture.client->stream(resources::kPods, {}, {}, [](WatchEvent) {}).code();
  };
  for (const auto& [status, body, code] :
       {std::tuple{"429 Too Many Requests", std::string("{}"), Code::kUnavailable},
        std::tuple{"500 Internal Server Error", std::string("{}"), Code::kUnavailable},
        std::tuple{"500 Internal Server Error", hiccup, Code::kUnavailable},
        std::tuple{"502 Bad Gateway", std::string("{}"), Code::kUnavailable},
        std::tuple{"503 Service Unavailable", std::string("{}"), Code::kUnavailable},
        std::tuple{"504 Gateway Timeout", std::string("{}"), Code::kUnavailable},
        std::tuple{"401 Unauthorized", std::string("{}"), Code::kPermissionDenied},
        std::tuple{"410 Gone", kExpired, Code::kOutOfRange}})
    EXPECT_EQ(
        streamed(each_request([&](Peer& peer, const std::string&) { peer.answer(body, status); })),
        code)
        << status << body;
  for (const auto& [error, code] :
       {std::pair{hiccup, Code::kUnavailable}, std::pair{kExpired, Code::kOutOfRange},
        std::pair{std::string(R"({"kind":"Status","code":504,"message":"timeout"})"),
                  Code::kUnavailable}})
    EXPECT_EQ(
        streamed(each_request([&](Peer& peer, const std::string&) {
          peer.begin_chunks();
          peer.chunk(item_event("ADDED", "a") + R"({"type":"ERROR","object":)" + error + "}\n");
          peer.await_end();
        })),
        code)
        << error;
}

}  // namespace
}  // namespace larder::k8s
