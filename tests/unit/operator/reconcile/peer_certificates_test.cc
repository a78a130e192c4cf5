#include "operator/reconcile/peer_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "operator/api/base64.h"
#include "operator/pki/certificates.h"
#include "sidecar/base/log.h"
#include "tests/unit/operator/fake_api.h"

namespace larder::reconcile {
namespace {

using api::Object;
using operator_test::FakeApi;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t kDay = 86'400, kStart = 1'760'000'000;

class PeerCertificatesTest : public testing::Test {
 protected:
  PeerCertificatesTest() { base::set_log_level(base::LogLevel::kError); }

  static api::CachePool pool(const char* peers = "{}", const char* uid = "u-1") {
    return *api::parse_pool(
        {{"metadata", {{"name", "chat"}, {"namespace", "ml"}, {"uid", uid}}},
         {"spec", {{"memory", {{"size", "1Gi"}}}, {"peers", Object::parse(peers)}}}});
  }
  PeerSecret keep() { return keep_peer_secret(api_, pool(), now_s_); }
  std::optional<Object> secret() const {
    return api_.find(k8s::resources::kSecrets, "ml", "larder-chat-peers");
  }
  std::string in_secret(const char* key) const {
    return api::from_base64((*secret())["data"][key].get<std::string>()).value_or("");
  }
  std::vector<std::string> authorities() const { return pki::split_bundle(in_secret("ca.crt")); }

  FakeApi api_;
  std::int64_t now_s_ = kStart;
};

TEST_F(PeerCertificatesTest, AuthorityAndLeafAreCreatedInOneWrite) {
  ASSERT_TRUE(keep().status.ok());
  EXPECT_EQ(api_.writes(), 1U);
  const Result<pki::CertificateFacts> leaf = pki::read_certificate(in_secret("tls.crt"));
  ASSERT_TRUE(leaf.ok());
  EXPECT_THAT(leaf->names, ElementsAre("chat.ml.larder"));
  ASSERT_THAT(authorities(), SizeIs(1));
  EXPECT_TRUE(pki::is_signed_by(in_secret("tls.crt"), authorities()[0]));
  EXPECT_TRUE(pki::belong_together({in_secret("tls.crt"), in_secret("tls.key")}));
  EXPECT_EQ((*secret())["metadata"]["ownerReferences"][0]["uid"], "u-1") << "ends with its pool";
  ASSERT_TRUE(keep().status.ok());
  EXPECT_EQ(api_.writes(), 1U) << "nothing is due";
}

TEST_F(PeerCertificatesTest, SecretIsUntouchedWithoutPeerTls) {
  for (const char* peers : {R"({"enabled": false})", R"({"tls": {"enabled": false}})",
                            R"({"tls": {"secretName": "mine"}})"})
    EXPECT_TRUE(keep_peer_secret(api_, pool(peers), now_s_).status.ok()) << peers;
  EXPECT_TRUE(api_.all(k8s::resources::kSecrets).empty());
}

// Three years, day by day. Every pod has one of the Secrets of the last ten minutes, and any two of
// them must trust each other.
// covers F-321
TEST_F(PeerCertificatesTest, PodsTrustEachOtherThroughYearsOfRotation) {
  struct Files {
    std::string ca, leaf;
    bool operator==(const Files&) const = default;
  };
  std::vector<std::pair<std::int64_t, Files>> history;
  std::set<std::string> leaves, first_authorities;
  const auto trusts = [](const Files& one, const Files& other) {
    for (const std::string& authority : pki::split_bundle(one.ca))
      if (pki::is_signed_by(other.leaf, authority)) return true;
    return false;
  };
  for (std::int64_t step = 0; now_s_ < kStart + 3 * 365 * kDay; ++step) {
    ASSERT_TRUE(keep().status.ok());
    const Files now{in_secret("ca.crt"), in_secret("tls.crt")};
    leaves.insert(now.leaf);
    first_authorities.insert(pki::split_bundle(now.ca).front());
    EXPECT_LT(now_s_ + 20 * kDay, pki::read_certificate(now.leaf)->validity.not_after_s);
    if (history.empty() || history.back().second != now) history.emplace_back(now_s_, now);
    // A pod may have the files that a change of the last two minutes replaced.
    for (std::size_t i = history.size(); i-- > 0;) {
      EXPECT_TRUE(trusts(now, history[i].second) && trusts(history[i].second, now)) << now_s_;
      if (history[i].first + 120 < now_s_) break;
    }
    // Each day, and around a change each minute.
    now_s_ += history.back().first + 1200 > now_s_ ? 60 : kDay;
  }
  EXPECT_GE(leaves.size(), 15U);
  EXPECT_GE(first_authorities.size(), 2U) << "an old authority goes";
}

// covers F-322
TEST_F(PeerCertificatesTest, BrokenSecretIsRecreated) {
  ASSERT_TRUE(keep().status.ok());
  for (const char* key : {"tls.key", "tls.crt", "ca.crt"}) {
    Object broken = *secret();
    broken["data"][key] = "bm9uZQ==";
    api_.as_user(k8s::resources::kSecrets, broken);
    ASSERT_TRUE(keep().status.ok()) << key;
    EXPECT_TRUE(pki::belong_together({in_secret("tls.crt"), in_secret("tls.key")})) << key;
    EXPECT_TRUE(pki::is_signed_by(in_secret("tls.crt"), authorities().back())) << key;
  }
  api_.delete_as_user(k8s::resources::kSecrets, "ml", "larder-chat-peers");
  ASSERT_TRUE(keep().status.ok());
  EXPECT_TRUE(secret());
}

// covers F-323
TEST_F(PeerCertificatesTest, SecretOfAnotherOwnerIsKept) {
  api_.as_user(k8s::resources::kSecrets,
               {{"metadata", {{"name", "larder-chat-peers"}, {"namespace", "ml"}}},
                {"data", {{"tls.crt", "bWluZQ=="}}}});
  const Object before = *secret();
  EXPECT_THAT(keep().taken, HasSubstr("does not belong to Larder"));
  EXPECT_EQ(*secret(), before);
}

TEST_F(PeerCertificatesTest, SecretOfPreviousPoolIsAwaited) {
  ASSERT_TRUE(keep().status.ok());
  const Object before = *secret();
  const PeerSecret kept = keep_peer_secret(api_, pool("{}", "u-2"), now_s_);
  EXPECT_TRUE(kept.waiting);
  EXPECT_EQ(*secret(), before);
}

// covers F-324
TEST_F(PeerCertificatesTest, MissingPermissionIsReported) {
  api_.set_failures([](const FakeApi::Call& call) -> std::optional<FakeApi::Failure> {
    if (call.plural != "secrets") return std::nullopt;
    return FakeApi::Failure{Status(Code::kPermissionDenied, "no")};
  });
  EXPECT_EQ(keep().status.code(), Code::kPermissionDenied);
}

}  // namespace
}  // namespace larder::reconcile
