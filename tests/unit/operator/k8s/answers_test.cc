#include "operator/k8s/answers.h"

#include <gtest/gtest.h>

#include "operator/k8s/paths.h"

namespace larder::k8s {
namespace {

Response answer(int status, const std::string& reason) {
  return {status,
          R"({"kind":"Status","reason":")" + reason + R"(","message":"the server's words"})", ""};
}

TEST(AnswersTest, EachHttpStatusHasItsCode) {
  EXPECT_TRUE(status_of(answer(200, ""), "get").ok());
  EXPECT_TRUE(status_of(answer(201, ""), "get").ok());
  EXPECT_EQ(status_of(answer(404, "NotFound"), "get").code(), Code::kNotFound);
  EXPECT_EQ(status_of(answer(409, "AlreadyExists"), "create").code(), Code::kAlreadyExists);
  EXPECT_EQ(status_of(answer(409, "Conflict"), "replace").code(), Code::kFailedPrecondition);
  EXPECT_EQ(status_of(answer(410, "Expired"), "watch").code(), Code::kOutOfRange);
  EXPECT_EQ(status_of(answer(401, "Unauthorized"), "get").code(), Code::kPermissionDenied);
  EXPECT_EQ(status_of(answer(403, "Forbidden"), "get").code(), Code::kPermissionDenied);
  EXPECT_EQ(status_of(answer(422, "Invalid"), "apply").code(), Code::kInvalidArgument);
  EXPECT_EQ(status_of(answer(405, "MethodNotAllowed"), "apply").code(), Code::kUnsupported);
  for (const int passing : {429, 500, 502, 503, 504}) {
    EXPECT_EQ(status_of(answer(passing, ""), "get").code(), Code::kUnavailable) << passing;
    EXPECT_TRUE(is_passing(passing)) << passing;
  }
  // redirects are not followed
  EXPECT_EQ(status_of(answer(302, ""), "get").code(), Code::kUnavailable);
  for (const int lasting : {400, 401, 403, 404, 409, 410, 422, 501})
    EXPECT_FALSE(is_passing(lasting)) << lasting;
}

TEST(AnswersTest, ServerMessageIsKept) {
  EXPECT_EQ(status_of(answer(422, "Invalid"), "apply CachePool ml/a").text(),
            "apply CachePool ml/a: the server's words (422)");
  EXPECT_EQ(status_of(Response{502, "bad gateway", ""}, "get").text(), "get: bad gateway (502)");
  EXPECT_EQ(status_of(Response{502, "", ""}, "get").text(), "get: no reason given (502)");
  EXPECT_LT(status_of(Response{500, std::string(100'000, 'x'), ""}, "get").text().size(), 2000U);
}

TEST(AnswersTest, RetryAfterIsSecondsAndBounded) {
  EXPECT_EQ(retry_after("7"), std::chrono::seconds(7));
  EXPECT_EQ(retry_after("4000000000"), std::chrono::minutes(10));
  for (const char* none :
       {"", "-1", "1.5", "soon", "99999999999999", "Wed, 21 Oct 2026 07:28:00 GMT"})
    EXPECT_EQ(retry_after(none), std::nullopt) << none;
}

TEST(AnswersTest, PausesGrowToFiveSeconds) {
  for (std::uint32_t random = 0; random < 10'000; random += 7) {
    std::chrono::milliseconds least{50};
    for (int tries = 1; tries < 40; ++tries) {
      const auto pause = pause_before(tries, random);
      ASSERT_GE(pause, least);
      ASSERT_LE(pause, least * 2);
      least = std::min(least * 2, std::chrono::milliseconds(2500));
    }
  }
}

TEST(PathsTest, MatchTheApiServer) {
  EXPECT_EQ(path_of(resources::kPods, "ml", "a"), "/api/v1/namespaces/ml/pods/a");
  EXPECT_EQ(path_of(resources::kPods, ""), "/api/v1/pods");
  EXPECT_EQ(path_of(resources::kPools, "ml", "a", "status"),
            "/apis/larder.dev/v1alpha1/namespaces/ml/cachepools/a/status");
  EXPECT_EQ(path_of(resources::kWebhooks, "ml", "larder"),
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/larder");
  EXPECT_EQ(path_of(resources::kPods, "a/b", "../c?d"), "/api/v1/namespaces/a%2Fb/pods/..%2Fc%3Fd");
  EXPECT_EQ(query_of(Query{{"a", ""}, {"b", "x y&z=ä"}, {"c", "1"}}), "?b=x%20y%26z%3D%C3%A4&c=1");
  EXPECT_EQ(query_of(Query{}), "");
}

}  // namespace
}  // namespace larder::k8s
