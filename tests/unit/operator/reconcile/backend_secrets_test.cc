#include "operator/reconcile/backend_secrets.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "operator/reconcile/memory_file.h"
#include "tests/unit/operator/fake_api.h"

namespace larder::reconcile {
namespace {

using api::Object;
using operator_test::FakeApi;

api::CacheBackend backend(const char* spec) {
  const Result<api::CacheBackend> parsed = api::parse_backend(
      {{"metadata", {{"name", "cache"}, {"namespace", "ml"}}}, {"spec", Object::parse(spec)}});
  EXPECT_TRUE(parsed.ok()) << parsed.status().text();
  return parsed.ok() ? *parsed : api::CacheBackend{};
}

void put_secret(FakeApi& api, const std::string& ns, const std::string& name, const Object& data) {
  api.as_user(k8s::resources::kSecrets,
              {{"metadata", {{"name", name}, {"namespace", ns}}}, {"data", data}});
}

TEST(BackendSecretsTest, ReferencedSecretsAreRead) {
  FakeApi api;
  put_secret(api, "ml", "auth", {{"password", "c2VjcmV0"}, {"sentinel", "eA=="}});
  put_secret(api, "ml", "tls", {{"ca.crt", "Y2E="}, {"tls.crt", "Y3J0"}, {"tls.key", "a2V5"}});
  const BackendSecrets secrets =
      read_secrets(api, backend(R"({"mode": "Sentinel", "master": "m", "endpoints": ["s:26379"],
    "password": {"name": "auth"}, "sentinelPassword": {"name": "auth", "key": "sentinel"},
    "tls": {"caSecret": "tls", "clientSecret": "tls"}})"));
  EXPECT_EQ(secrets.missing + secrets.unreadable, "");
  EXPECT_EQ(secrets.bytes,
            (std::map<std::string, std::string>{{"backend.password_file", "secret"},
                                                {"backend.sentinel_password_file", "x"},
                                                {"backend.ca_file", "ca"},
                                                {"backend.cert_file", "crt"},
                                                {"backend.key_file", "key"}}));
}

TEST(BackendSecretsTest, SecretsAreReadOnlyFromItsNamespace) {
  FakeApi api;
  put_secret(api, "default", "auth", {{"password", "c2VjcmV0"}});
  const BackendSecrets secrets =
      read_secrets(api, backend(R"({"endpoints": ["r:1"], "password": {"name": "auth"}})"));
  EXPECT_EQ(secrets.missing,
            "there is no Secret auth of namespace ml (spec.password): create the Secret, with key "
            "password");
  for (const FakeApi::Call& call : api.calls()) EXPECT_EQ(call.ns, "ml");
}

TEST(BackendSecretsTest, MissingSecretIsReported) {
  FakeApi api;
  const api::CacheBackend wants =
      backend(R"({"endpoints": ["r:1"], "password": {"name": "auth", "key": "p"}})");
  put_secret(api, "ml", "auth", {{"password", "c2VjcmV0"}});
  EXPECT_NE(read_secrets(api, wants).missing.find("has no key p"), std::string::npos);
  put_secret(api, "ml", "auth", {{"p", ""}});
  EXPECT_NE(read_secrets(api, wants).missing.find("has no value under key p"), std::string::npos);
  api.set_failures([](const FakeApi::Call&) {
    return FakeApi::Failure{Status(Code::kPermissionDenied, "forbidden")};
  });
  EXPECT_NE(read_secrets(api, wants).unreadable.find("backendSecrets"), std::string::npos);
  EXPECT_EQ(read_secrets(api, wants).missing, "");
}

TEST(BackendSecretsTest, TlsSecretsAreNotReadWithoutTls) {
  EXPECT_TRUE(
      secret_files(
          backend(R"({"endpoints": ["r:1"], "tls": {"enabled": false, "caSecret": "c"}})").spec)
          .empty());
}

TEST(MemoryFileTest, OpensAsAFileRepeatedly) {
  const Result<MemoryFile> file = MemoryFile::of("secret\n");
  ASSERT_TRUE(file.ok());
  for (int i = 0; i < 2; ++i) {
    std::ifstream in(file->path());
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_EQ(text.str(), "secret\n");
  }
}

}  // namespace
}  // namespace larder::reconcile
