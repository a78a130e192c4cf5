#include "operator/webhook/certificate_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>

#include "operator/api/base64.h"
#include "operator/webhook/certificate_loader.h"
#include "sidecar/base/log.h"
#include "sidecar/base/log_throttle.h"
#include "tests/unit/operator/fake_api.h"

namespace larder::webhook {
namespace {

using namespace pki;

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class CertificateManagerTest : public testing::Test {
 protected:
  CertificateManagerTest() {
    api_.as_user(k8s::resources::kWebhooks,
                 {{"apiVersion", "admissionregistration.k8s.io/v1"},
                  {"kind", "MutatingWebhookConfiguration"},
                  {"metadata", {{"name", "larder"}}},
                  {"webhooks",
                   {{{"name", "a.larder.dev"}, {"clientConfig", {{"url", "x"}}}},
                    {{"name", "b.larder.dev"}, {"clientConfig", {{"caBundle", "b2xk"}}}}}}});
    api_.forget_calls();
  }

  std::string in_secret(const std::string& key) {
    const std::optional<api::Object> secret = api_.find(k8s::resources::kSecrets, "sys", "tls");
    return secret ? api::from_base64((*secret)["data"][key].get<std::string>()).value_or("?") : "";
  }
  std::vector<std::string> published() {
    const std::optional<api::Object> found = api_.find(k8s::resources::kWebhooks, "", "larder");
    EXPECT_EQ((*found)["webhooks"][0]["clientConfig"]["caBundle"],
              (*found)["webhooks"][1]["clientConfig"]["caBundle"]);
    return split_bundle(
        api::from_base64((*found)["webhooks"][0]["clientConfig"]["caBundle"].get<std::string>())
            .value_or(""));
  }
  KeyPair served() { return {in_secret("tls.crt"), in_secret("tls.key")}; }
  void pass_time(std::int64_t seconds) {
    now_s_ += seconds;
    clock_.advance_ms(static_cast<std::uint64_t>(seconds) * 1000);
  }
  void keep(CertificateManager& manager) {
    const Status status = manager.run_once();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }

  operator_test::FakeApi api_;
  base::ManualClock clock_;
  std::int64_t now_s_ = 1'760'000'000;
  const KeptCertificates kept_{
      "sys",
      "tls",
      "larder-webhook",
      "larder",
      {.authority_s = 9000, .leaf_s = 900, .backdate_s = 10, .settle_s = 60}};
  CertificateManager manager_{api_, kept_, clock_, [this] { return now_s_; }};
};

TEST_F(CertificateManagerTest, CreatesAllObjectsAtFirst) {
  keep(manager_);
  const Result<CertificateFacts> leaf = read_certificate(served().certificate);
  ASSERT_TRUE(leaf.ok());
  EXPECT_THAT(leaf->names, Contains("larder-webhook.sys.svc"));
  ASSERT_THAT(published(), SizeIs(1));
  EXPECT_TRUE(is_signed_by(served().certificate, published()[0]));
  EXPECT_EQ(
      (*api_.find(k8s::resources::kWebhooks, "", "larder"))["webhooks"][0]["clientConfig"]["url"],
      "x")
      << "the rest stays";
}

// With keys for a search of the log: the made certificate, and the failed one.
TEST_F(CertificateManagerTest, LogLinesNameTheSecret) {
  const auto lines_of = [&](const std::function<void()>& act) {
    base::set_log_format(base::LogFormat::kJson);
    base::tell_all_left_out();  // of other tests
    testing::internal::CaptureStderr();
    act();
    base::set_log_format(base::LogFormat::kText);
    std::istringstream text(testing::internal::GetCapturedStderr());
    std::vector<api::Object> lines;
    for (std::string line; std::getline(text, line);)
      if (line.find("webhook certificates: ") != std::string::npos)
        lines.push_back(api::parse_json(line).value());
    return lines;
  };
  std::stop_source stop;
  int refused = 0;
  const auto refuse = [&](const operator_test::FakeApi::Call& call)
      -> std::optional<operator_test::FakeApi::Failure> {
    // not a watch's, which may come first
    if (call.verb == "get" && ++refused == 2) stop.request_stop();
    return operator_test::FakeApi::Failure{
        Status(Code::kPermissionDenied, "no right to version " + std::to_string(refused))};
  };
  const std::vector<api::Object> made = lines_of([&] { keep(manager_); });
  api_.set_failures(refuse);
  const std::vector<api::Object> failed = lines_of([&] { manager_.run(stop.get_token()); });
  EXPECT_THAT(made, SizeIs(testing::Ge(2)));
  ASSERT_THAT(failed, SizeIs(1)) << "two refusals, whose words differ in a number";
  EXPECT_EQ(api::text_at(failed[0], "level"), "warning");
  for (const std::vector<api::Object>& lines : {made, failed})
    for (const api::Object& line : lines)
      for (const auto& [key, value] : {std::pair{"kind", "Secret"}, std::pair{"namespace", "sys"},
                                       std::pair{"name", "tls"}, std::pair{"webhook", "larder"}})
        EXPECT_EQ(api::text_at(line, key), value) << line;
}

// Never a leaf before its authority is in the caBundle.
TEST_F(CertificateManagerTest, BundleIsWrittenBeforeTheLeaf) {
  bool bundle_written = false;
  api_.set_failures([&](const operator_test::FakeApi::Call& call)
                        -> std::optional<operator_test::FakeApi::Failure> {
    if (call.plural == "mutatingwebhookconfigurations" && call.writes()) {
      EXPECT_EQ(in_secret("tls.crt"), "");
      bundle_written = true;
    }
    return {};
  });
  keep(manager_);
  EXPECT_TRUE(bundle_written);
}

TEST_F(CertificateManagerTest, SecondRunWritesNothing) {
  keep(manager_);
  api_.forget_calls();
  keep(manager_);
  CertificateManager next(api_, kept_, clock_, [this] { return now_s_; });
  keep(next);
  EXPECT_EQ(api_.writes(), 0U) << "a new leader neither";
}

TEST_F(CertificateManagerTest, RotatesWithOverlap) {
  keep(manager_);
  const std::string first_authority = published()[0];
  std::vector<std::size_t> sizes;
  std::size_t leaves = 0;
  std::string leaf = served().certificate;
  for (int i = 0; i < 1000; ++i) {
    pass_time(10);
    keep(manager_);
    if (sizes.empty() || sizes.back() != published().size()) sizes.push_back(published().size());
    if (leaf == served().certificate) continue;
    leaf = served().certificate;
    ++leaves;
    EXPECT_TRUE(belong_together(served()));
    EXPECT_TRUE(std::ranges::any_of(
        published(), [&](const std::string& one) { return is_signed_by(leaf, one); }));
  }
  EXPECT_THAT(sizes, ElementsAre(1, 2, 1)) << "one, the next beside it, and that one alone";
  EXPECT_NE(published()[0], first_authority);
  EXPECT_GT(leaves, 14U);
}

TEST_F(CertificateManagerTest, DamagedObjectsAreRepaired) {
  keep(manager_);
  const KeyPair before = served();
  api_.as_user(k8s::resources::kWebhooks,
               {{"metadata", {{"name", "larder"}}},
                {"webhooks",
                 {{{"name", "a"}, {"clientConfig", {{"caBundle", ""}}}},
                  {{"name", "b"}, {"clientConfig", api::Object::object()}}}}});
  keep(manager_);
  EXPECT_TRUE(is_signed_by(before.certificate, published().at(0)));
  EXPECT_EQ(served(), before);
  for (const char* key : {"tls.crt", "tls.key", "ca.key", "ca.crt"}) {
    for (const char* value : {"", "!", "bm9uc2Vuc2U="}) {
      api_.as_user(k8s::resources::kSecrets, {{"metadata", {{"name", "tls"}, {"namespace", "sys"}}},
                                              {"data", {{key, value}}}});
      for (int i = 0; i < 8; ++i, pass_time(10)) keep(manager_);
      EXPECT_TRUE(belong_together(served())) << key;
      EXPECT_TRUE(is_signed_by(served().certificate, published().back())) << key;
    }
  }
}

// The act of a sync that replaces, of `helm upgrade --force` or of a person's kubectl. Pods made
// meanwhile get no cache.
// covers F-237
TEST_F(CertificateManagerTest, RemovedObjectsAreRestoredAtOnce) {
  using std::chrono::steady_clock;
  const auto within_a_second = [](const auto& holds) {
    const auto end = steady_clock::now() + std::chrono::seconds(1);
    while (!holds() && steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return holds();
  };
  const auto whole = [&] {
    const std::optional<api::Object> found = api_.find(k8s::resources::kWebhooks, "", "larder");
    const std::string bundle =
        found ? api::text_at((*found)["webhooks"][0], "clientConfig.caBundle") : "";
    const std::vector<std::string> authorities =
        split_bundle(api::from_base64(bundle).value_or(""));
    return !authorities.empty() && is_signed_by(in_secret("tls.crt"), authorities.back()) &&
           belong_together(served());
  };
  const api::Object bare{
      {"apiVersion", "admissionregistration.k8s.io/v1"},
      {"kind", "MutatingWebhookConfiguration"},
      {"metadata", {{"name", "larder"}}},
      {"webhooks", {{{"name", "a.larder.dev"}, {"clientConfig", {{"url", "x"}}}}}}};
  const std::jthread keeping([this](const std::stop_token& stop) { manager_.run(stop); });
  ASSERT_TRUE(within_a_second(whole));
  for (int i = 0; i < 3; ++i) {
    api_.as_user(k8s::resources::kWebhooks, bare);
    EXPECT_TRUE(within_a_second(whole)) << "replaced";
    api_.delete_as_user(k8s::resources::kWebhooks, "", "larder");
    api_.as_user(k8s::resources::kWebhooks, bare);
    EXPECT_TRUE(within_a_second(whole)) << "deleted and made again";
    api_.delete_as_user(k8s::resources::kSecrets, "sys", "tls");
    EXPECT_TRUE(within_a_second(whole)) << "no Secret";
  }
}

// A conflict or an API server that is away for a moment does not cost the 10 s of a quiet look.
TEST_F(CertificateManagerTest, FailedRunIsRetriedSoon) {
  std::atomic<int> failures = 2;
  api_.set_failures([&](const operator_test::FakeApi::Call& call)
                        -> std::optional<operator_test::FakeApi::Failure> {
    if (call.verb != "get" || failures-- <= 0) return {};
    return operator_test::FakeApi::Failure{Status(Code::kUnavailable, "away")};
  });
  const std::jthread keeping([this](const std::stop_token& stop) { manager_.run(stop); });
  for (int i = 0; i < 300 && in_secret("tls.crt").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(belong_together(served()));
}

TEST_F(CertificateManagerTest, AnEmptySecretOfTheChartIsFilled) {
  api_.as_user(k8s::resources::kSecrets,
               {{"apiVersion", "v1"},
                {"kind", "Secret"},
                {"metadata", {{"name", "tls"}, {"namespace", "sys"}, {"labels", {{"a", "b"}}}}}});
  keep(manager_);
  EXPECT_TRUE(belong_together(served()));
  EXPECT_EQ((*api_.find(k8s::resources::kSecrets, "sys", "tls"))["metadata"]["labels"]["a"], "b");
}

TEST_F(CertificateManagerTest, CertificateIsCreatedWithoutAWebhookConfiguration) {
  api_.delete_as_user(k8s::resources::kWebhooks, "", "larder");
  keep(manager_);
  EXPECT_TRUE(belong_together(served()));
}

// Whichever call fails, lost answers too: an error, and the next look goes on. A written object is
// never half of one.
TEST_F(CertificateManagerTest, AnyCallMayFail) {
  for (int failing = 0; failing < 8; ++failing) {
    for (const bool done : {false, true}) {
      api_.delete_as_user(k8s::resources::kSecrets, "sys", "tls");
      int call = 0;
      api_.set_failures([&](const auto&) -> std::optional<operator_test::FakeApi::Failure> {
        if (call++ != failing) return {};
        return operator_test::FakeApi::Failure{Status(Code::kUnavailable, "cut"), done};
      });
      CertificateManager manager(api_, kept_, clock_, [this] { return now_s_; });
      static_cast<void>(manager.run_once());
      const bool has_leaf = in_secret("tls.crt") != "";
      EXPECT_TRUE(!has_leaf || is_signed_by(served().certificate, published().back())) << failing;
      keep(manager);
      EXPECT_TRUE(belong_together(served())) << failing;
      EXPECT_TRUE(is_signed_by(served().certificate, published().back())) << failing;
    }
  }
}

TEST_F(CertificateManagerTest, SecretIsReadableByReplicas) {
  const ReadCertificate read = certificate_in_secret(api_, "sys", "tls");
  EXPECT_EQ(read().status().code(), Code::kNotFound);
  keep(manager_);
  const Result<KeyPair> pair = read();
  ASSERT_TRUE(pair.ok()) << pair.status().to_string();
  EXPECT_EQ(*pair, served());
}

}  // namespace
}  // namespace larder::webhook
