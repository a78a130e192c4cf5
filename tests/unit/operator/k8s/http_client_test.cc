#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/operator/k8s/client_fixture.h"

namespace larder::k8s {
namespace {

using std::chrono::milliseconds;

const std::string kPod =
    R"({"kind":"Pod","metadata":{"namespace":"ml","name":"a","resourceVersion":"5"}})";

api::Object pod() {
  return {
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"namespace", "ml"}, {"name", "a"}}}};
}

std::string failure(int code, const std::string& reason) {
  return R"({"kind":"Status","reason":")" + reason + R"(","message":"words","code":)" +
         std::to_string(code) + "}";
}

// The requests to the server, in order.
struct Heard {
  std::mutex mutex;
  std::vector<std::string> requests;
  void add(const std::string& request) {
    const std::lock_guard lock(mutex);
    requests.push_back(request);
  }
};

TEST(HttpClientTest, EachVerbHasItsRequestForm) {
  Heard heard;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string& request) {
    heard.add(request);
    peer.answer(kPod);
  }));
  HttpClient& client = *fixture.client;
  const Result<api::Object> got = client.get(resources::kPods, "ml", "a");
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(api::name_of(*got), "a");
  EXPECT_TRUE(client.create(resources::kPods, pod()).ok());
  EXPECT_TRUE(client.replace(resources::kPods, pod()).ok());
  EXPECT_TRUE(client.apply(resources::kPods, pod(), "").ok());
  EXPECT_TRUE(client.apply(resources::kPods, pod(), "status").ok());
  EXPECT_TRUE(client.merge(resources::kPods, "ml", "a", {{"x", 1}}).ok());
  EXPECT_TRUE(client.remove(resources::kPods, "ml", "a", "u1").ok());
  EXPECT_TRUE(client.get_path("/version").ok());

  const std::string path = "/api/v1/namespaces/ml/pods", manager = "?fieldManager=larder-operator";
  const std::vector<std::string> expected{
      "GET " + path + "/a HTTP/1.1",
      "POST " + path + manager + " HTTP/1.1",
      "PUT " + path + "/a" + manager + " HTTP/1.1",
      "PATCH " + path + "/a" + manager + "&force=true HTTP/1.1",
      "PATCH " + path + "/a/status" + manager + "&force=true HTTP/1.1",
      "PATCH " + path + "/a" + manager + " HTTP/1.1",
      "DELETE " + path + "/a HTTP/1.1",
      "GET /version HTTP/1.1"};
  ASSERT_EQ(heard.requests.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(first_line(heard.requests[i]), expected[i]);
  EXPECT_NE(heard.requests[3].find("Content-Type: application/apply-patch+yaml\r\n"),
            std::string::npos);
  EXPECT_NE(heard.requests[5].find("Content-Type: application/merge-patch+json\r\n"),
            std::string::npos);
  EXPECT_TRUE(heard.requests[5].ends_with(R"({"x":1})"));
  EXPECT_NE(heard.requests[6].find(R"("preconditions":{"uid":"u1"})"), std::string::npos);
  EXPECT_EQ(fixture.server.connections(), 1) << "one connection served them all";
  EXPECT_NE(
      fixture.metrics.text().find(R"(rest_client_requests_total{code="200",method="PATCH"} 3)"),
      std::string::npos);
}

TEST(HttpClientTest, RemovingAnAbsentObjectSucceeds) {
  int asked = 0;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string&) {
    ++asked;
    peer.answer(failure(asked == 1 ? 404 : 409, "x"),
                asked == 1 ? "404 Not Found" : "409 Conflict");
  }));
  EXPECT_TRUE(fixture.client->remove(resources::kPods, "ml", "a", "").ok());
  EXPECT_TRUE(fixture.client->remove(resources::kPods, "ml", "a", "of another").ok());
  EXPECT_EQ(fixture.client->remove(resources::kPods, "ml", "a", "").code(),
            Code::kFailedPrecondition);
}

TEST(HttpClientTest, RetryAfterIsHonoured) {
  int asked = 0;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string&) {
    if (++asked <= 2)
      return peer.answer(failure(429, "TooManyRequests"), "429 Too Many Requests",
                         "retry-after: 3\r\n");
    peer.answer(kPod);
  }));
  EXPECT_TRUE(fixture.client->get(resources::kPods, "ml", "a").ok());
  EXPECT_EQ(fixture.pauses, (std::vector<milliseconds>{milliseconds(3000), milliseconds(3000)}));
}

TEST(HttpClientTest, RetryAfterBeyondTheDeadlineIsReturned) {
  ClientFixture fixture(each_request([](Peer& peer, const std::string&) {
    peer.answer(failure(429, "TooManyRequests"), "429 Too Many Requests", "Retry-After: 60\r\n");
  }));
  const auto got = fixture.client->get(resources::kPods, "ml", "a");
  EXPECT_EQ(got.status().code(), Code::kUnavailable);
  EXPECT_EQ(got.status().text(), "get Pod ml/a: words (429)");
  EXPECT_TRUE(fixture.pauses.empty());
}

TEST(HttpClientTest, ServerErrorsAreRetriedFiveTimes) {
  int asked = 0;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string&) {
    ++asked;
    peer.answer(failure(503, "ServiceUnavailable"), "503 Service Unavailable");
  }));
  EXPECT_EQ(fixture.client->create(resources::kPods, pod()).status().code(), Code::kUnavailable);
  EXPECT_EQ(asked, 5);
  EXPECT_EQ(fixture.pauses.size(), 4U);
}

TEST(HttpClientTest, ClientErrorsAreNotRetried) {
  int asked = 0;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string&) {
    ++asked;
    peer.answer(failure(409, "Conflict"), "409 Conflict");
  }));
  EXPECT_EQ(fixture.client->replace(resources::kPods, pod()).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(asked, 1);
}

TEST(HttpClientTest, UnreachableServer) {
  auto fixture = std::make_unique<ClientFixture>([](Peer&, int) {});
  CredentialSource nowhere{Credentials{.server = "http://127.0.0.1:1"}};
  CurlTransport transport(nowhere, fixture->clock);
  HttpClient client(transport, fixture->clock,
                    {.pause = [](milliseconds, const std::stop_token&) {}});
  EXPECT_EQ(client.get(resources::kPods, "ml", "a").status().code(), Code::kUnavailable);
}

TEST(HttpClientTest, TruncatedAnswerIsAnError) {
  ClientFixture fixture([](Peer& peer, int number) {
    while (!peer.request().empty()) {
      if (number > 0) {
        peer.answer(kPod);
        continue;
      }
      peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"kind\":\"Pod\"}");
      return;
    }
  });
  EXPECT_TRUE(fixture.client->get(resources::kPods, "ml", "a").ok()) << "tried again";
  EXPECT_EQ(fixture.server.connections(), 2);
}

TEST(HttpClientTest, SlowAnswersEndAtTheDeadline) {
  ClientFixture fixture(
      [](Peer& peer, int) {
        peer.request();
        peer.send_pieces(
            "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, ' '), 1, 20);
      },
      {.deadline = milliseconds(400)});
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(fixture.client->get(resources::kPods, "ml", "a").status().code(),
            Code::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST(HttpClientTest, EndlessHeadersAndBodiesAreCut) {
  ClientFixture headers([](Peer& peer, int) {
    peer.request();
    peer.send("HTTP/1.1 200 OK\r\n");
    while (peer.send("X-More: " + std::string(1000, 'x') + "\r\n")) {
    }
  });
  EXPECT_EQ(headers.client->get(resources::kPods, "ml", "a").status().code(), Code::kOutOfRange);

  std::atomic<std::size_t> sent = 0;
  ClientFixture body([&](Peer& peer, int) {
    peer.request();
    peer.begin_chunks();
    const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
    while (peer.send(chunk)) sent += chunk.size();
  });
  EXPECT_EQ(body.client->get(resources::kPods, "ml", "a").status().code(), Code::kOutOfRange);
  EXPECT_LT(sent, 4 * api::kMostBytes);
}

TEST(HttpClientTest, MalformedAnswersAreErrors) {
  for (const std::string body : {"", "x", "[]", "1", "null", "{\"a\":", "{} {}"}) {
    ClientFixture fixture(each_request([&](Peer& peer, const std::string&) { peer.answer(body); }));
    EXPECT_EQ(fixture.client->get(resources::kPods, "ml", "a").status().code(),
              Code::kInvalidArgument)
        << body;
  }
  ClientFixture deep(each_request(
      [&](Peer& peer, const std::string&) { peer.answer(std::string(100'000, '[')); }));
  EXPECT_EQ(deep.client->get(resources::kPods, "ml", "a").status().code(), Code::kInvalidArgument);
}

TEST(HttpClientTest, TinyChunksAreJoined) {
  ClientFixture fixture(each_request([](Peer& peer, const std::string&) {
    peer.begin_chunks();
    for (const char c : kPod) peer.chunk(std::string(1, c));
    peer.send("0\r\n\r\n");
  }));
  EXPECT_TRUE(fixture.client->get(resources::kPods, "ml", "a").ok());
}

TEST(HttpClientTest, StopRequestEndsACall) {
  std::stop_source stop;
  ClientFixture fixture(
      [&](Peer& peer, int) {
        peer.request();
        stop.request_stop();
        peer.await_end();
      },
      {.stop = stop.get_token()});
  EXPECT_EQ(fixture.client->get(resources::kPods, "ml", "a").status().code(), Code::kUnavailable);
  EXPECT_EQ(fixture.client->get(resources::kPods, "ml", "a").status().code(), Code::kUnavailable);
  EXPECT_EQ(fixture.server.connections(), 1);
}

TEST(HttpClientTest, NamesAreEscapedInPaths) {
  std::string line;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string& request) {
    line = first_line(request);
    peer.answer(kPod);
  }));
  EXPECT_TRUE(fixture.client->get(resources::kPods, "ml", "../../secrets/x\r\nX-Evil: 1").ok());
  EXPECT_EQ(line,
            "GET /api/v1/namespaces/ml/pods/..%2F..%2Fsecrets%2Fx%0D%0AX-Evil%3A%201 HTTP/1.1");
}

class ManualFence final : public Fence {
 public:
  std::uint64_t left_ms() const override { return left; }
  std::atomic<std::uint64_t> left{0};
};

TEST(FencedClientTest, WritesNothingWhenTheFenceIsDown) {
  ManualFence fence;
  ClientFixture fixture(each_request([](Peer& peer, const std::string&) { peer.answer(kPod); }),
                        {.fence = &fence});
  HttpClient& client = *fixture.client;
  EXPECT_EQ(client.create(resources::kPods, pod()).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(client.replace(resources::kPods, pod()).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(client.apply(resources::kPods, pod(), "").status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(client.merge(resources::kPods, "ml", "a", {}).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(client.remove(resources::kPods, "ml", "a", "").code(), Code::kFailedPrecondition);
  EXPECT_EQ(client.remove(resources::kPods, "ml", "a", "uid").code(), Code::kFailedPrecondition);
  EXPECT_EQ(fixture.server.connections(), 0);
  EXPECT_TRUE(client.get(resources::kPods, "ml", "a").ok()) << "reads need no fence";
}

TEST(FencedClientTest, TimeoutIsSentToTheServer) {
  ManualFence fence;
  fence.left = 7000;
  std::string line;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string& request) {
                          line = first_line(request);
                          peer.answer(kPod);
                        }),
                        {.fence = &fence});
  EXPECT_TRUE(fixture.client->create(resources::kPods, pod()).ok());
  EXPECT_EQ(line,
            "POST /api/v1/namespaces/ml/pods?fieldManager=larder-operator&timeout=7000ms HTTP/1.1");
}

TEST(FencedClientTest, WriteInProgressIsCutWhenTheFenceFalls) {
  ManualFence fence;
  fence.left = 60'000;
  ClientFixture fixture(
      [&](Peer& peer, int) {
        peer.request();
        fence.left = 0;
        peer.await_end();
      },
      {.fence = &fence});
  EXPECT_EQ(fixture.client->create(resources::kPods, pod()).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(fixture.server.connections(), 1) << "and not tried again";
}

TEST(FencedClientTest, NoRetryAfterTheFenceFell) {
  ManualFence fence;
  fence.left = 60'000;
  int asked = 0;
  ClientFixture fixture(each_request([&](Peer& peer, const std::string&) {
                          ++asked;
                          fence.left = 0;
                          peer.answer(failure(503, "x"), "503 Service Unavailable");
                        }),
                        {.fence = &fence});
  EXPECT_FALSE(fixture.client->create(resources::kPods, pod()).ok());
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace larder::k8s
