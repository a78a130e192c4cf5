#include "sidecar/pages/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sidecar/http/listener.h"
#include "tests/unit/http/client.h"
#include "tests/unit/pages/fake_control.h"

namespace larder::pages {
namespace {

using http::ask;
using http::connect_tcp;
using http::connect_unix;
using http::receive_all;
using http::send_all;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    config_.http.listen = "127.0.0.1:0";
    config_.http.admin_socket =
        testing::TempDir() + "larder_http_test." + std::to_string(::getpid()) + ".admin";
    std::filesystem::remove(config_.http.admin_socket);
  }
  void start() {
    Result<std::unique_ptr<HttpServer>> server = HttpServer::start(config_, control_);
    ASSERT_TRUE(server.ok()) << server.status().text();
    server_ = std::move(*server);
  }
  std::string tcp(const std::string& line, const std::string& headers = "") {
    return ask(connect_tcp(server_->address()),
               line + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  }
  std::string admin(const std::string& line, const std::string& body = "") {
    return ask(connect_unix(config_.http.admin_socket),
               line + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                   std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  static std::string body(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }

  config::Config config_;
  FakeControl control_;
  std::unique_ptr<HttpServer> server_;
};

// covers F-125
TEST_F(ServerTest, HealthAndReadinessFollowTheLoop) {
  start();
  EXPECT_THAT(tcp("GET /healthz"), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("ok")));
  EXPECT_THAT(tcp("GET /readyz"), StartsWith("HTTP/1.1 200 "));
  control_.is_healthy = false;
  control_.is_ready = false;
  EXPECT_THAT(tcp("GET /healthz"), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("has not turned")));
  EXPECT_THAT(tcp("GET /readyz"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(ServerTest, MetricsAndStatus) {
  control_.stats.models = {{"llama\xff", 1, 1, 100, 60, 0, 0, 0, 0}};
  control_.stats.fallbacks = {{"hugepages", "3 of 5 are free"},
                              {"engines", "a chunk is too large", 7}};
  start();
  EXPECT_THAT(tcp("GET /metrics"), AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4"),
                                         HasSubstr("larder_ready 1")));
  const auto status = nlohmann::json::parse(body(tcp("GET /v1/status")));
  EXPECT_EQ(status["models"][0]["tokens_hit"], 60);
  EXPECT_EQ(status["fallbacks"],
            nlohmann::json::parse(R"([{"kind": "hugepages", "why": "3 of 5 are free"},
                                                          {"kind": "engines", "why": "a chunk is too large", "times": 7}])"));
  EXPECT_EQ(nlohmann::json::parse(body(admin("GET /v1/status"))), status);
  EXPECT_TRUE(status["disk"].is_null());
  EXPECT_TRUE(status["backend"].is_null());
}

TEST_F(ServerTest, StatusShowsTheBackendIfConfigured) {
  stats::TierStats& known = control_.stats.backend;
  known.place = "redis://cache:6379/0";
  known.mode = "TCP";
  known.takes_gets = false;
  known.reason = "no connection to the server";
  known.puts = 5;
  control_.stats.probes = 6;
  control_.stats.probe.record(2'000'000);
  control_.stats.probe_hits_shared = 7;
  start();
  const auto backend = nlohmann::json::parse(body(tcp("GET /v1/status")))["backend"];
  EXPECT_EQ(backend["url"], "redis://cache:6379/0");
  EXPECT_EQ(backend["mode"], "TCP");
  EXPECT_EQ(backend["takes_gets"], false);
  EXPECT_EQ(backend["reason"], "no connection to the server");
  EXPECT_EQ(backend["puts"]["ok"], 5);
  EXPECT_EQ(backend["probes"]["asked"], 6);
  EXPECT_EQ(backend["probes"]["answered"]["count"], 1);
  EXPECT_EQ(backend["probes"]["answered"]["seconds"], 0.002);
  EXPECT_EQ(backend["probes"]["shared"], 7);
}

TEST_F(ServerTest, StatusShowsTheDiskIfConfigured) {
  control_.stats.disk.place = "/d";
  control_.stats.disk.reason = "writes fail";
  control_.stats.disk.chunks = 5;
  control_.stats.disk.get_bytes = 6;
  start();
  const auto disk = nlohmann::json::parse(body(tcp("GET /v1/status")))["disk"];
  EXPECT_EQ(disk["path"], "/d");
  EXPECT_EQ(disk["reason"], "writes fail");
  EXPECT_EQ(disk["chunks"], 5);
  EXPECT_EQ(disk["gets"]["bytes"], 6);
}

TEST_F(ServerTest, AdminVerbs) {
  start();
  EXPECT_THAT(admin("POST /v1/drop?namespace=abcd1234"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\"dropped\": 7"),
                    HasSubstr("\"shared\": false")));
  control_.stats.backend.place = "redis://r";
  EXPECT_THAT(admin("POST /v1/drop?namespace=abcd1234"), HasSubstr("\"shared\": true"));
  EXPECT_THAT(admin("POST /v1/drop?namespace=beef"),
              AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("no namespace beef")));
  EXPECT_THAT(admin("POST /v1/drop"), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("which one?")));
  EXPECT_THAT(control_.dropped(), ElementsAre("abcd1234", "abcd1234", "beef"));
  EXPECT_THAT(tcp("POST /v1/clear"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\"dropped\": 11")));
  EXPECT_THAT(tcp("GET /v1/clear"), AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: POST\r\n"),
                                          HasSubstr("POST /v1/drop")))
      << "a verb is never a GET";
  EXPECT_THAT(tcp("POST /metrics"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n")));
  EXPECT_THAT(tcp("HEAD /metrics"), StartsWith("HTTP/1.1 200 "));
  for (const char* line : {"GET /v1", "POST /v1/clear/", "DELETE /metric"})
    EXPECT_THAT(tcp(line), StartsWith("HTTP/1.1 404 ")) << line;
  EXPECT_THAT(tcp("POST /v1/clear", "Origin: http://evil\r\n"), StartsWith("HTTP/1.1 403 "));
  control_.is_healthy = false;
  EXPECT_THAT(admin("POST /v1/clear"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("did not answer")));
}

TEST_F(ServerTest, ChunksArePrefetchedPinnedUnpinnedAndEvictedByHash) {
  start();
  const std::string hash =
      "0100000000000000"
      "0200000000000000";
  const std::string body =
      R"({"namespace": "abcd", "hashes": [")" + hash + R"(", ")" + hash + hash + R"("]})";
  for (const char* verb : {"prefetch", "pin", "unpin", "evict"}) {
    const std::string answer = admin(std::string("POST /v1/") + verb, body);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 ")) << verb;
    EXPECT_EQ(nlohmann::json::parse(ServerTest::body(answer)),
              nlohmann::json::parse(R"({"found": 2, "absent": 1, "refused": 2})"));
  }
  EXPECT_THAT(control_.acted(),
              ElementsAre("1 abcd 1:2 1:2", "2 abcd 1:2 1:2", "3 abcd 1:2 1:2", "4 abcd 1:2 1:2"));
  EXPECT_THAT(admin("POST /v1/pin", R"({"namespace": "beef", "hashes": []})"),
              StartsWith("HTTP/1.1 404 "));
}

TEST_F(ServerTest, MalformedHashListIsRefused) {
  start();
  const std::pair<std::string, const char*> wrong[] = {
      {"", "no JSON object"},
      {"[1, 2]", "no JSON object"},
      {std::string(40'000, '['), "no JSON object"},
      {R"({"hashes": []})", "namespace must be a text"},
      {R"({"namespace": 7, "hashes": []})", "namespace must be a text"},
      {R"({"namespace": "ab", "hashes": "x"})", "hashes must be a list"},
      {R"({"namespace": "ab", "hashes": [7]})", "hash 1 must have 32 hex digits or more"},
      {R"({"namespace": "ab", "hashes": ["00112233445566778899aabbccddeef"]})",
       "hash 1 must have 32"},
      {R"({"namespace": "ab", "hashes": ["00112233445566778899aabbccddeefg"]})",
       "hash 1 must have 32"},
  };
  for (const auto& [body, why] : wrong)
    EXPECT_THAT(admin("POST /v1/evict", body), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr(why)))
        << body.substr(0, 60);
  std::string many = R"({"namespace": "ab", "hashes": [)";
  for (int i = 0; i < 1025; ++i) many += (i == 0 ? "0" : ",0");
  EXPECT_THAT(admin("POST /v1/evict", many + "]}"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("at most 1024 hashes")));
  EXPECT_TRUE(control_.acted().empty());
}

TEST_F(ServerTest, TraceIsServedInPages) {
  start();
  EXPECT_THAT(admin("POST /v1/trace"),
              HasSubstr(R"({"now_ms":1000,"next":5,"lost":0,"requests":[]})"));
  EXPECT_THAT(
      admin("POST /v1/trace?from=5"),
      HasSubstr(R"({"at_ms":1500,"model":"llama","tokens":600,"tokens_hit":256,"block_tokens":256,)"
                R"("block_bytes":4096,"hash_ids":[7,8]})"));
  EXPECT_THAT(admin("POST /v1/trace?from=x"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("from is the number")));
  EXPECT_THAT(admin("GET /v1/trace"), StartsWith("HTTP/1.1 405 "));
}

TEST_F(ServerTest, AdminVerbsAreRefusedOutsideOfLoopback) {
  config_.http.listen = "0.0.0.0:0";
  start();
  EXPECT_THAT(tcp("POST /v1/clear"), AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("loopback")));
  EXPECT_THAT(tcp("POST /v1/drop?namespace=abcd1234"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(tcp("POST /v1/evict"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(tcp("POST /v1/trace"), StartsWith("HTTP/1.1 403 "));
  EXPECT_TRUE(control_.dropped().empty());
  EXPECT_THAT(tcp("GET /healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(admin("POST /v1/clear"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, HostileRequestsAreAnswered) {
  start();
  EXPECT_THAT(ask(connect_tcp(server_->address()), "\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(connect_tcp(server_->address()), std::string("\0\x01\xff\r\n\r\n", 7)),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(tcp("GET /" + std::string(9000, 'a')), StartsWith("HTTP/1.1 414 "));
  EXPECT_THAT(tcp("GET /%%%zz?a=%"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(tcp("DELETE /v1/clear"), StartsWith("HTTP/1.1 "));
  EXPECT_THAT(tcp("GET /healthz", "Range: bytes=" + std::string(8000, '1') + "-\r\n"),
              StartsWith("HTTP/1.1 "));
  EXPECT_THAT(tcp("GET /healthz", "Expect: 100-continue\r\n"), HasSubstr("HTTP/1.1 200 "));
  EXPECT_THAT(tcp("GET /healthz"), StartsWith("HTTP/1.1 200 ")) << "and the server goes on";
}

TEST_F(ServerTest, TheAdminSocketHasTheConfiguredMode) {
  config_.socket_mode = 0600;
  start();
  struct stat info {};
  ASSERT_EQ(::stat(config_.http.admin_socket.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(config_.http.admin_socket));
}

TEST_F(ServerTest, StaleSocketIsReplacedAndLiveSocketIsRefused) {
  start();
  config_.http.listen = "";
  EXPECT_THAT(HttpServer::start(config_, control_).status().text(),
              HasSubstr("another process listens there; stop it or set another http.admin_socket"));
  EXPECT_THAT(admin("GET /healthz"), StartsWith("HTTP/1.1 200 ")) << "the first one is undisturbed";
  server_.reset();
  {
    const Result<http::Listener> abandoned = http::listen_unix(config_.http.admin_socket, 0600);
    ASSERT_TRUE(abandoned.ok());
  }
  ASSERT_TRUE(std::filesystem::exists(config_.http.admin_socket));
  start();
  EXPECT_THAT(admin("GET /healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, AdminSocketFailureNamesItsKey) {
  const std::string path = config_.http.admin_socket;
  const auto why = [](const std::string& at) {
    return http::listen_unix(at, 0600).status().text();
  };
  EXPECT_EQ(why("/nonexistent/x.admin"),
            "http.admin_socket /nonexistent/x.admin cannot be made (the folder must exist and be "
            "writable, or set another): "
            "No such file or directory");
  EXPECT_THAT(why("/etc/passwd"),
              HasSubstr("stands there; remove it or set another http.admin_socket"));
  const Fd engines(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(::bind(engines.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(engines.get(), 1), 0);
  EXPECT_EQ(why(path), "http.admin_socket " + path +
                           ": somebody else's socket stands there; set another http.admin_socket: "
                           "Protocol wrong type for socket");
  std::filesystem::remove(path);
}

// Clusters are of IPv4, of IPv6, or of both: one setting serves in all.
TEST_F(ServerTest, AnyAddressListensOnBothFamilies) {
  config_.http.listen = ":0";
  start();
  EXPECT_THAT(tcp("GET /healthz"), StartsWith("HTTP/1.1 200 "));
  const Fd six(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 peer{};
  peer.sin6_family = AF_INET6;
  peer.sin6_addr = in6addr_loopback;
  const std::string address = server_->address();
  peer.sin6_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  const bool there = six.valid() && [] {  // a machine may have no ::1
    const Fd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 loopback{};
    loopback.sin6_family = AF_INET6;
    loopback.sin6_addr = in6addr_loopback;
    return ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof(loopback)) == 0;
  }();
  if (!there) GTEST_SKIP() << "no IPv6 on this machine";
  ASSERT_EQ(::connect(six.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)), 0)
      << address;
  EXPECT_THAT(ask(six, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

// A page that has this machine's address for its own name (DNS rebinding) reads no byte.
// covers F-124
TEST_F(ServerTest, AForeignHostIsRefused) {
  start();
  const auto of = [this](const std::string& host) {
    return ask(connect_tcp(server_->address()),
               "GET /v1/status HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  EXPECT_THAT(of("evil.example:9464"), AllOf(StartsWith("HTTP/1.1 421 Misdirected Request\r\n"),
                                             HasSubstr("http.hosts"), Not(HasSubstr("sessions"))));
  EXPECT_THAT(of(server_->address()), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(of("localhost:9464"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask(connect_tcp(server_->address()), "GET /metrics HTTP/1.1\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(connect_unix(config_.http.admin_socket),
                  "GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "))
      << "no page reaches a Unix socket";
}

TEST_F(ServerTest, ConfiguredHostNamesAreAnswered) {
  config_.http.hosts = {"*.gpu.example"};
  start();
  EXPECT_THAT(ask(connect_tcp(server_->address()),
                  "GET /healthz HTTP/1.1\r\nHost: n1.gpu.example:9464\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, AddressInUseIsReported) {
  start();
  config::Config second = config_;
  second.http.listen = server_->address();
  second.http.admin_socket = "";
  EXPECT_THAT(HttpServer::start(second, control_).status().text(),
              AllOf(HasSubstr("http.listen 127.0.0.1:"), HasSubstr("Address already in use")));
}

}  // namespace
}  // namespace larder::pages
