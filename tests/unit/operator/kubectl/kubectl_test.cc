#include "operator/kubectl/kubectl.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/operator/kubectl/fake_kubectl.h"

namespace larder::kubectl {
namespace {

using std::chrono::milliseconds;

class KubectlTest : public testing::Test {
 protected:
  FakeKubectl fake_;
};

TEST_F(KubectlTest, OptionsPrecedeArgumentsWithoutShell) {
  fake_.script("for word; do echo \"<$word>\"; done\n");
  const Kubectl kubectl({"--context=a b", "--as=$(id)"}, fake_.program());
  const auto answer = kubectl.ask({"get", "pods;ls"});
  ASSERT_TRUE(answer.ok()) << answer.status().text();
  EXPECT_EQ(*answer, "<--context=a b>\n<--as=$(id)>\n<get>\n<pods;ls>\n");
}

TEST_F(KubectlTest, RefusalsAreClassified) {
  const std::pair<const char*, Code> kCases[] = {
      {"Error from server (NotFound): pods \"x\" not found", Code::kNotFound},
      {"error: the server doesn't have a resource type \"cachepools\"", Code::kNotFound},
      {"Error from server (Forbidden): pods is forbidden", Code::kPermissionDenied},
      {"error: You must be logged in to the server (Unauthorized)", Code::kPermissionDenied},
      {"Unable to connect to the server: dial tcp: i/o timeout", Code::kUnavailable},
      {"The connection to the server localhost:8080 was refused", Code::kUnavailable},
      {"error: something else", Code::kFailedPrecondition}};
  const Kubectl kubectl({}, fake_.program());
  for (const auto& [error, code] : kCases) {
    fake_.refuse("get x", error);
    const auto answer = kubectl.ask({"get", "x"});
    EXPECT_EQ(answer.status().code(), code) << error;
    EXPECT_EQ(answer.status().text(), error);
  }
}

// As without a cluster: kubectl's library logs the same line five times before.
TEST_F(KubectlTest, OnlyTheFinalErrorSentenceIsShown) {
  const std::string logged =
      "E1122 19:23:03.023237   24547 memcache.go:265] \"Unhandled Error\" err=\"couldn't get "
      "current server API group list\"\n";
  const std::string own =
      "The connection to the server localhost:8080 was refused - did you specify the right host or "
      "port?";
  const Kubectl kubectl({}, fake_.program());
  fake_.refuse("get x", logged + logged + logged + logged + logged + own);
  const auto answer = kubectl.ask({"get", "x"});
  EXPECT_EQ(answer.status().code(), Code::kUnavailable);
  EXPECT_EQ(answer.status().text(), own);
  fake_.refuse("get x", "Warning: old\nerror: no");
  EXPECT_EQ(kubectl.ask({"get", "x"}).status().text(), "Warning: old; error: no");
  fake_.refuse("get x", logged);
  EXPECT_EQ(kubectl.ask({"get", "x"}).status().text() + "\n", logged) << "without any other line";
}

TEST_F(KubectlTest, DeadlineKillsTheProcessGroup) {
  fake_.script("echo waiting for a login >&2\nsleep 20\n");  // which keeps both pipes open
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = Kubectl({}, fake_.program(), milliseconds(300)).ask({"get", "pods"});
  EXPECT_EQ(answer.status().code(), Code::kDeadlineExceeded);
  EXPECT_NE(answer.status().text().find("waiting for a login"), std::string::npos)
      << answer.status().text();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST_F(KubectlTest, ProcessWithClosedStreamsIsKilledAtTheDeadline) {
  fake_.script("exec >&- 2>&-\nexec sleep 20\n");
  const auto answer = Kubectl({}, fake_.program(), milliseconds(300)).ask({"get", "pods"});
  EXPECT_EQ(answer.status().code(), Code::kDeadlineExceeded);
}

TEST_F(KubectlTest, LargeStderrDoesNotBlockTheAnswer) {
  fake_.script("head -c 300000 /dev/zero | tr '\\0' w >&2\necho answer\n");
  const auto answer = Kubectl({}, fake_.program()).ask({"get", "pods"});
  ASSERT_TRUE(answer.ok()) << answer.status().text();
  EXPECT_EQ(*answer, "answer\n");
}

TEST_F(KubectlTest, ShowEndsAtItsDeadline) {
  fake_.script("exec sleep 20\n");
  const Status shown = Kubectl({}, fake_.program()).show({"exec", "llm"}, milliseconds(300));
  EXPECT_EQ(shown.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(Kubectl({}, fake_.program() + "-not").show({"exec", "llm"}, milliseconds(300)).code(),
            Code::kUnavailable);
}

TEST_F(KubectlTest, AnEndlessAnswerIsBounded) {
  fake_.script("exec yes\n");
  const auto answer = Kubectl({}, fake_.program()).ask({"get", "pods"}, 1 << 20);
  EXPECT_EQ(answer.status().code(), Code::kOutOfRange);
}

TEST_F(KubectlTest, MissingKubectlIsReported) {
  const auto answer = Kubectl({}, "/nowhere/kubectl").ask({"get", "pods"});
  EXPECT_EQ(answer.status().code(), Code::kUnavailable);
  EXPECT_NE(answer.status().text().find("PATH"), std::string::npos);
}

TEST_F(KubectlTest, ParallelCallsAnswerInOrder) {
  fake_.script("echo $2\n");
  std::vector<Words> calls;
  for (int i = 0; i < 40; ++i) calls.push_back({"get", std::to_string(i)});
  const auto answers = Kubectl({}, fake_.program()).ask_all(calls);
  ASSERT_EQ(answers.size(), 40U);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(answers[i].ok());
    EXPECT_EQ(*answers[i], std::to_string(i) + "\n");
  }
}

}  // namespace
}  // namespace larder::kubectl
