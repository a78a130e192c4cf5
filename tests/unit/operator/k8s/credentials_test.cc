#include "operator/k8s/credentials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sidecar/base/log_throttle.h"
#include "tests/unit/operator/k8s/client_fixture.h"

namespace larder::k8s {
namespace {

namespace fs = std::filesystem;

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() {
    std::string name = (fs::temp_directory_path() / "larder_credentials.XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~CredentialsTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  // Like kubelet: a new folder, and a link that points to the folder from one moment to the next.
  void project(const std::string& version, const std::string& token, const std::string& ca) const {
    fs::create_directory(folder_ / version);
    write(version + "/token", token);
    write(version + "/ca.crt", ca);
    fs::remove(folder_ / "next");
    fs::create_directory_symlink(version, folder_ / "next");
    fs::rename(folder_ / "next", folder_ / "..data");
  }

  std::string kubeconfig(const std::string& cluster, const std::string& user) const {
    write("config",
          "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- name: here\n  "
          "context: {cluster: c, user: u}\n"
          "clusters:\n- name: c\n  cluster:\n    server: https://example:6443/\n" +
              cluster + "users:\n- name: u\n  user:\n" + user);
    return (folder_ / "config").string();
  }

  fs::path folder_;
};

TEST_F(CredentialsTest, RotatedServiceAccountIsFollowed) {
  project("1", "first\n", "CA 1");
  fs::create_symlink("..data/token", folder_ / "token");
  fs::create_symlink("..data/ca.crt", folder_ / "ca.crt");
  ::setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  auto source = CredentialSource::in_cluster(folder_);
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  const auto first = (*source)->current();
  EXPECT_EQ(first->server, "https://10.96.0.1:443");
  EXPECT_EQ(first->token, "first");
  EXPECT_EQ(first->ca_pem, "CA 1");
  project("2", "second", "CA 1");
  EXPECT_EQ((*source)->current()->token, "second");
  EXPECT_EQ((*source)->current()->tls_version, first->tls_version) << "connections may be kept";
  project("3", "second", "CA 2");
  EXPECT_EQ((*source)->current()->ca_pem, "CA 2");
  EXPECT_NE((*source)->current()->tls_version, first->tls_version);
  EXPECT_EQ(first->token, "first") << "a holder of the credentials keeps the credentials";

  project("4", "", "CA 2");
  EXPECT_EQ((*source)->current()->token, "second") << "an empty file replaces no token";
  fs::remove(folder_ / "..data");
  EXPECT_EQ((*source)->current()->token, "second") << "nor does a missing one";
  project("5", "evil\r\nX-Header: 1", "CA 2");
  EXPECT_EQ((*source)->current()->token, "second") << "nor one that would forge a header field";
  project("6", "third", "CA 2");
  EXPECT_EQ((*source)->current()->token, "third");
}

TEST_F(CredentialsTest, IntermittentFileIsLoggedOnce) {
  write("token", "first");
  auto source = CredentialSource::from_kubeconfig(
      kubeconfig("", "    tokenFile: " + (folder_ / "token").string() + "\n"));
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  base::tell_all_left_out();  // of other tests
  testing::internal::CaptureStderr();
  for (int i = 0; i < 50; ++i) {
    fs::remove(folder_ / "token");
    EXPECT_EQ((*source)->current()->token.empty(), false);
    write("token", "of round " + std::to_string(i));
    (*source)->current();
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

TEST_F(CredentialsTest, OutsideOfAPodIsReported) {
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  const auto none = CredentialSource::in_cluster(folder_);
  EXPECT_EQ(none.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(none.status().text().find("--kubeconfig"), std::string::npos);
  ::setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  EXPECT_NE(
      CredentialSource::in_cluster(folder_).status().text().find("automountServiceAccountToken"),
      std::string::npos);
  write("token", "t");
  write("ca.crt", "c");
  EXPECT_EQ((*CredentialSource::in_cluster(folder_))->current()->server, "https://[fd00::1]:443");
}

TEST_F(CredentialsTest, KubeconfigWithDataAndFilesIsRead) {
  write("key.pem", "KEY");
  const auto source = CredentialSource::from_kubeconfig(
      kubeconfig("    certificate-authority-data: Q0EgUEVN\n    tls-server-name: kubernetes\n",
                 "    client-certificate-data: Q0VSVA==\n    client-key: key.pem\n"));
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  const auto now = (*source)->current();
  EXPECT_EQ(now->server, "https://example:6443");
  EXPECT_EQ(now->ca_pem, "CA PEM");
  EXPECT_EQ(now->certificate_pem, "CERT");
  EXPECT_EQ(now->key_pem, "KEY");
  EXPECT_EQ(now->server_name, "kubernetes");
  EXPECT_TRUE(now->verify);
  write("key.pem", "ANOTHER KEY");
  EXPECT_EQ((*source)->current()->key_pem, "ANOTHER KEY");
}

TEST_F(CredentialsTest, ATokenFileIsFollowed) {
  write("token", "one");
  const auto source = CredentialSource::from_kubeconfig(
      kubeconfig("    insecure-skip-tls-verify: true\n", "    tokenFile: token\n"));
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  EXPECT_EQ((*source)->current()->token, "one");
  EXPECT_FALSE((*source)->current()->verify);
  write("token", "two is longer");
  EXPECT_EQ((*source)->current()->token, "two is longer");
}

TEST_F(CredentialsTest, UnsupportedFieldsAreReported) {
  for (const std::string field : {"exec", "auth-provider", "username", "as"}) {
    const auto source =
        CredentialSource::from_kubeconfig(kubeconfig("", "    " + field + ": {command: aws}\n"));
    EXPECT_EQ(source.status().code(), Code::kUnsupported) << field;
    EXPECT_NE(source.status().text().find("user u has '" + field + "'"), std::string::npos)
        << source.status().text();
  }
}

TEST_F(CredentialsTest, WrongFieldsAreReported) {
  const auto why = [&](const std::string& file) {
    return CredentialSource::from_kubeconfig(file).status().text();
  };
  EXPECT_NE(why((folder_ / "absent").string()).find("absent"), std::string::npos);
  write("empty", "");
  EXPECT_NE(why((folder_ / "empty").string()).find("kubeconfig"), std::string::npos);
  write("bad", "a: [1");
  EXPECT_NE(why((folder_ / "bad").string()).find("no valid YAML"), std::string::npos);
  write("twice", "a: 1\na: 2\n");
  EXPECT_NE(why((folder_ / "twice").string()).find("twice"), std::string::npos);
  write("alias", "a: &x 1\nb: *x\n");
  EXPECT_NE(why((folder_ / "alias").string()).find("not allowed"), std::string::npos);
  write("none", "contexts: []\n");
  EXPECT_NE(why((folder_ / "none").string()).find("there is no context ''"), std::string::npos);
  EXPECT_NE(why(kubeconfig("    certificate-authority: nowhere.pem\n", "    token: t\n"))
                .find("cluster c.certificate-authority"),
            std::string::npos);
  EXPECT_NE(why(kubeconfig("    certificate-authority-data: '*'\n", "    token: t\n"))
                .find("is no base64"),
            std::string::npos);
}

// The newline would end the header field of the token, and the rest would be another field.
// covers F-250
TEST_F(CredentialsTest, TokenMustBeOneLine) {
  const auto why = [&](const std::string& user) {
    const auto source = CredentialSource::from_kubeconfig(kubeconfig("", user));
    return source.ok() ? "taken: " + (*source)->current()->token : source.status().text();
  };
  EXPECT_NE(why("    token: \"evil\\r\\nX-Header: 1\"\n").find("user u.token holds a line end"),
            std::string::npos);
  EXPECT_NE(why("    token: |\n      t\n").find("user u.token holds a line end"),
            std::string::npos);
  EXPECT_EQ(why("    token: |-\n      t\n"), "taken: t");
  write("token", "evil\r\nX-Header: 1\n");
  EXPECT_NE(why("    tokenFile: token\n").find("a token is one"), std::string::npos)
      << "never to ask without one";
}

TEST_F(CredentialsTest, JsonKubeconfigIsRead) {
  write("json",
        R"({"current-context":"a","contexts":[{"name":"a","context":{"cluster":"c","user":"u"}}],)"
        R"("clusters":[{"name":"c","cluster":{"server":"https://x:1"}}],"users":[{"name":"u",)"
        R"("user":{"token":"123"}}]})");
  const auto source = CredentialSource::from_kubeconfig((folder_ / "json").string());
  ASSERT_TRUE(source.ok()) << source.status().to_string();
  EXPECT_EQ((*source)->current()->token, "123");
}

TEST_F(CredentialsTest, RotatedTokenIsSentAndRefusedTokenIsRetried) {
  write("token", "old");
  std::mutex mutex;
  std::vector<std::string> seen;
  ScriptedServer server(each_request([&](Peer& peer, const std::string& request) {
    const std::lock_guard lock(mutex);
    const std::size_t at = request.find("Authorization: ");
    seen.push_back(
        at == std::string::npos ? "" : request.substr(at + 15, request.find("\r\n", at) - at - 15));
    if (seen.back() == "Bearer new") return peer.answer("{}");
    write("token", "new");  // the token rotates in just this moment
    peer.answer("{}", "401 Unauthorized");
  }));
  CredentialSource source{credentials_of(server)};
  ASSERT_TRUE(source.follow(folder_ / "token", &Credentials::token).ok());
  const base::MonotonicClock clock;
  CurlTransport transport(source, clock);
  HttpClient client(transport, clock);
  EXPECT_TRUE(client.get_path("/version").ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"Bearer old", "Bearer new"}));
}

TEST_F(CredentialsTest, TokenIsNotSentOverPlainHttpToOtherHosts) {
  CredentialSource source{Credentials{.server = "http://192.0.2.1:80", .token = "secret"}};
  const base::MonotonicClock clock;
  CurlTransport transport(source, clock);
  const auto response = transport.exchange({.path = "/"});
  EXPECT_EQ(response.status().code(), Code::kPermissionDenied);
  EXPECT_EQ(response.status().text().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace larder::k8s
