// A real server behind TLS, client certificates and ACL users; certificates of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sidecar/tiers/remote/chunks/remote_tier.h"
#include "tests/component/certificates.h"
#include "tests/component/server_process.h"
#include "tests/component/tier_node.h"
#include "tests/conformance/tier_chunks.h"
#include "tests/unit/text_file.h"

namespace larder::test {
namespace {

using remote::RemoteOptions;
using testing::HasSubstr;
using tiers::testing_support::Loop;

class RemoteTlsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (server_program(GetParam()).empty())
      GTEST_SKIP() << "the server is not on this machine: make deps";
    port_ = free_port();
    files_.authority("ca");
    files_.certificate("server", "ca", "DNS:cache.example,IP:127.0.0.1");
    files_.certificate("client", "ca", "DNS:client");
    files_.write("password", "a secret\n");
    options_.host = "127.0.0.1";
    options_.port = port_;
    options_.user = "larder";
    options_.password_file = file("password");
    options_.tls = {true, file("ca.crt"), file("client.crt"), file("client.key"), ""};
    options_ = patient(options_);
    server_ = std::make_unique<ServerProcess>(
        GetParam(), std::vector<std::string>{
                        "--tls-port", std::to_string(port_), "--bind", "127.0.0.1",
                        "--tls-cert-file", file("server.crt"), "--tls-key-file", file("server.key"),
                        "--tls-ca-cert-file", file("ca.crt"), "--tls-auth-clients", "yes"});
    server_->ask({"ACL", "SETUSER", "larder", "reset", "on", ">a secret", "~larder:*", "+@all",
                  "-@dangerous"});
  }
  std::string file(const std::string& name) const { return files_.file(name); }
  // The fate of a tier with these options: "" for a working tier, else the reason.
  std::string outcome(const RemoteOptions& options) {
    const Result<std::unique_ptr<tiers::Tier>> tier = remote::open_remote_tier(clock_, options);
    if (!tier.ok()) return tier.status().text();
    Loop loop(**tier, clock_);
    if (const Status put = loop.put(1, 1, 1, 5 << 20); !put.ok()) return put.to_string();
    if (const Status got = loop.get(1, 1, 5 << 20); !got.ok()) return got.to_string();
    return "";
  }

  base::MonotonicClock clock_;
  const Certificates files_;
  std::uint16_t port_ = 0;
  RemoteOptions options_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_P(RemoteTlsTest, RightCertificatesAndPasswordConnect) {
  EXPECT_EQ(outcome(options_), "");
  options_.tls.server_name = "cache.example";
  EXPECT_EQ(outcome(options_), "");
}

// covers F-178, F-182
TEST_P(RemoteTlsTest, WrongCertificateOrPasswordIsReported) {
  RemoteOptions wrong = options_;
  wrong.tls.server_name = "another.example";
  EXPECT_THAT(outcome(wrong), HasSubstr("hostname mismatch"))
      << "the certificate is another server's";
  files_.authority("stranger");
  wrong = options_;
  wrong.tls.ca_file = file("stranger.crt");
  EXPECT_THAT(outcome(wrong), HasSubstr("certificate")) << "an authority that is not ours";
  wrong.tls.ca_file.clear();
  EXPECT_THAT(outcome(wrong), HasSubstr("certificate")) << "nor the system's";
  wrong.tls.ca_file = file("missing.crt");
  EXPECT_THAT(outcome(wrong), HasSubstr("backend.ca_file"));
  wrong = options_;
  wrong.tls.cert_file = wrong.tls.key_file = "";
  EXPECT_NE(outcome(wrong), "") << "the server wants a client's certificate";
  wrong = options_;
  wrong.tls.enabled = false;
  EXPECT_NE(outcome(wrong), "");
  wrong = options_;
  files_.write("wrong", "another secret\n");
  wrong.password_file = file("wrong");
  EXPECT_THAT(outcome(wrong), HasSubstr("WRONGPASS"));
  wrong.password_file = file("nowhere");
  EXPECT_THAT(outcome(wrong), HasSubstr("backend.password_file"));
  wrong = options_;
  wrong.prefix = "others";
  EXPECT_THAT(outcome(wrong), HasSubstr("NOPERM"));
  EXPECT_EQ(outcome(options_), "");
}

// covers F-178
TEST_P(RemoteTlsTest, ARotatedPasswordIsReadAtTheNextConnect) {
  Node node(options_);
  ASSERT_TRUE(node.loop.put(1).ok());
  server_->ask({"ACL", "SETUSER", "larder", "resetpass", ">new"});
  server_->ask({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_TRUE(node.eventually([&] {
    return node.tier->state().reason.find("WRONGPASS") != std::string::npos;
  })) << node.tier->state().reason;
  EXPECT_TRUE(node.tier->state().degraded());
  files_.write("password", "new");
  EXPECT_TRUE(node.well()) << node.tier->state().reason;
  EXPECT_EQ(node.tier->state().reason, "");
  EXPECT_TRUE(node.loop.get(1).ok());
}

TEST_P(RemoteTlsTest, ARotatedAuthorityIsReadAtTheNextConnect) {
  const std::string authority = text_of(file("ca.crt"));
  Node node(options_);
  ASSERT_TRUE(node.loop.put(1).ok());
  files_.authority("stranger");
  files_.write("ca.crt", text_of(file("stranger.crt")));
  server_->ask({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_TRUE(node.eventually([&] {
    return node.tier->state().reason.find("certificate") != std::string::npos;
  })) << node.tier->state().reason;
  files_.write("ca.crt", authority);
  EXPECT_TRUE(node.eventually([&] { return node.tier->state().reason.empty(); }))
      << node.tier->state().reason;
  EXPECT_TRUE(node.loop.get(1).ok());
}

// The opener of a pipe waits for its writer.
TEST_P(RemoteTlsTest, NamedPipeAsTlsFileIsRefused) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  for (std::string remote::TlsOptions::*which :
       {&remote::TlsOptions::ca_file, &remote::TlsOptions::cert_file,
        &remote::TlsOptions::key_file}) {
    RemoteOptions wrong = options_;
    wrong.tls.*which = file("pipe");
    EXPECT_THAT(outcome(wrong), HasSubstr("pipe is no file"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Servers, RemoteTlsTest, testing::Values("redis-server", "valkey-server"), [](const auto& kind) {
      return std::string(kind.param).substr(0, std::string(kind.param).find('-'));
    });

}  // namespace
}  // namespace larder::test
