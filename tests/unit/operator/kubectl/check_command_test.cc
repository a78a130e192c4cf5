// `kubectl larder check` over a kubectl that answers like the real one; the texts below it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/kubectl/line_diff.h"
#include "operator/kubectl/plugin_commands.h"
#include "operator/kubectl/trial.h"
#include "operator/kubectl/yaml_text.h"
#include "tests/unit/operator/kubectl/fake_kubectl.h"

namespace larder::kubectl {
namespace {

using api::Object;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kRead =
    "create --dry-run=client --validate=ignore --output=json --filename=llm.yaml";
constexpr const char* kTried =
    "create --dry-run=server --validate=ignore --output=json --filename=- --namespace=models";
constexpr const char* kPod =
    R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a}b", "namespace": "models", "annotations": {"larder.dev/pool": "chat"}},
        "spec": {"containers": [{"name": "vllm"}]}})";

class CheckCommandTest : public testing::Test {
 protected:
  Result<ctl::Outcome> check() {
    Arguments arguments;
    arguments.files = {"--filename=llm.yaml"};
    arguments.words = {"check"};
    return check_files(arguments, Cluster(kubectl_));
  }
  FakeKubectl fake_;
  Kubectl kubectl_{{}, fake_.program()};
};

TEST_F(CheckCommandTest, EachPodIsDryRunWithAndWithoutLarder) {
  fake_.serve(kRead, std::string(kPod) + "\n" +
                         R"({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})");
  fake_.serve(kTried,
              R"({"metadata": {"name": "a-1", "annotations": {"larder.dev/injected": "0.1.0/chat"}},
                          "spec": {"initContainers": [{"name": "larder-payload"}], "containers": [{"name": "vllm"}]}})");
  const Result<ctl::Outcome> outcome = check();
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_EQ(outcome->exit_status, 0);
  EXPECT_THAT(outcome->text,
              HasSubstr("Pod models/a}b gets a cache of pool chat, and has the cache already"));
  EXPECT_EQ(fake_.calls(), std::string(kRead) + "\n" + kTried + "\n" + kTried + "\n");
}

TEST_F(CheckCommandTest, ApiServerMessageIsShownInFull) {
  const std::string words =
      "pods \"a-\" is forbidden: violates PodSecurity \"restricted:latest\": " +
      std::string(800, 'x') + " end";
  fake_.serve(kRead, kPod);
  fake_.refuse(
      kTried, "Warning: something\nError from server (Forbidden): error when creating \"STDIN\": " +
                  words + "\n");
  const Result<ctl::Outcome> outcome = check();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_status, 1);
  EXPECT_THAT(outcome->text,
              HasSubstr("! PodSecurity: the API server refuses the pod, with Larder and without: " +
                        words));
}

TEST_F(CheckCommandTest, MissingPodCreatePermissionIsReported) {
  fake_.serve(kRead, kPod);
  fake_.refuse(kTried,
               "Error from server (Forbidden): error when creating \"STDIN\": pods is forbidden: "
               "User \"ci\" cannot create resource \"pods\" in API group \"\" in the namespace "
               "\"models\"\n");
  const Result<ctl::Outcome> outcome = check();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_status, 2);
  EXPECT_THAT(outcome->text, HasSubstr("you need the right to create pods"));
}

TEST_F(CheckCommandTest, UnreadableFileIsReported) {
  fake_.refuse(kRead, "error: the path \"llm.yaml\" does not exist\n");
  ASSERT_FALSE(check().ok());
  EXPECT_THAT(check().status().text(), HasSubstr("does not exist"));
  fake_.script(
      "echo '"
      R"({"kind": "ConfigMap"})"
      "'; echo 'no matches for kind \"Odd\"' >&2; exit 1\n");
  const Result<ctl::Outcome> outcome = check();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_status, 2);
  EXPECT_THAT(outcome->text, HasSubstr("Not read: no matches for kind \"Odd\""));
}

TEST_F(CheckCommandTest, PodIsPassedOnStandardInput) {
  fake_.script("case \"$*\" in *dry-run=server*) cat >> " + fake_.program() +
               ".given; exit 1;; esac; cat <<'E'\n" + kPod + "\nE\n");
  ASSERT_TRUE(check().ok());
  std::stringstream given;
  given << std::ifstream(fake_.program() + ".given").rdbuf();
  EXPECT_THAT(given.str(), HasSubstr(R"("larder.dev/pool":"chat")"));
  EXPECT_THAT(given.str(), HasSubstr(R"("larder.dev/inject":"false")"));
  EXPECT_THAT(given.str(), HasSubstr(R"("generateName":"a}b-")"));
}

TEST(Trial, WarningsAreSeparatedFromTheRefusal) {
  const Trial trial =
      trial_of({"", "Warning: one\nWarning: two\nThe Pod \"a\" is invalid: \n* b\n* c\n",
                Status(Code::kFailedPrecondition, "x")});
  EXPECT_THAT(trial.warnings, ElementsAre("one", "two"));
  EXPECT_EQ(trial.refusal, "The Pod \"a\" is invalid: * b * c");
  EXPECT_TRUE(trial.asked.ok());
}

TEST(Trial, FailureWithoutAdmissionVerdictIsUnknown) {
  for (const char* said :
       {"Unable to connect to the server: dial tcp",
        "error: You must be logged in to the server (Unauthorized)", "",
        "Error from server (ServiceUnavailable): error when creating \"STDIN\": the server is busy",
        "Error from server (BadRequest): error when creating \"STDIN\": admission webhook \"w\" "
        "does not support dry run"}) {
    const Trial trial = trial_of({"", said, Status(Code::kUnavailable, "x")});
    EXPECT_FALSE(trial.asked.ok()) << said;
    EXPECT_EQ(trial.refusal, "") << said;
  }
  EXPECT_FALSE(trial_of({"no JSON", "", {}}).asked.ok());
}

TEST(YamlText, MatchesKubectl) {
  const Object object = Object::parse(
      R"J({"a": {"list": [1, "x", {"k": true, "l": []}, [2, 3], {}], "none": null}, "args": ["--model", "m", "--port=8000", "", "a # b",
      "no", "1e3", "4Gi", "100m", "8Gb", "12:30", "- x", "two  blanks", "end:", "a: b", "{}", "*x", "1.5", "ünï"], "script": "set -e\nvllm serve\n",
      "cut": "a\nb", "more": "a\n\n", "indented": " a\nb", "hostile": "\u001b[2J\u009bx\u007f\"\\", "larder.dev/pool": "chat",
      "turned": "a\u202eb\n", "two": "a\u2028b\nc"})J");
  EXPECT_EQ(
      yaml_text(object),
      "a:\n  list:\n  - 1\n  - x\n  - k: true\n    l: []\n  - - 2\n    - 3\n  - {}\n  none: null\n"
      "args:\n- \"--model\"\n- m\n- \"--port=8000\"\n- \"\"\n- \"a # b\"\n- \"no\"\n- \"1e3\"\n- "
      "4Gi\n- 100m\n- \"8Gb\"\n- "
      "\"12:30\"\n- \"- x\"\n"
      "- \"two  blanks\"\n- \"end:\"\n- \"a: b\"\n- \"{}\"\n- \"*x\"\n- \"1.5\"\n- \"ünï\"\n"
      "cut: |-\n  a\n  b\nhostile: \"\\x1b[2J\\x9bx\\x7f\\\"\\\\\"\nindented: \" "
      "a\\nb\"\nlarder.dev/pool: chat\nmore: "
      "|+\n  a\n\nscript: |\n  set -e\n  vllm serve\nturned: \"a\\u202eb\\n\"\ntwo: "
      "\"a\\u2028b\\nc\"\n");
}

TEST(LineDiff, ShowsUnifiedDifferences) {
  EXPECT_EQ(line_diff("a", "1\n2\n", "b", "1\n2\n"), "");
  EXPECT_EQ(line_diff("a", "", "b", "x\n"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
  EXPECT_EQ(line_diff("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b", "1\n2\n3\n4\nX\n6\n7\n8\n9\n"),
            "--- a\n+++ b\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n");
  const std::string far = "1\nA\n3\n4\n5\n6\n7\n8\n9\n10\nB\n12\n";
  EXPECT_EQ(
      line_diff("a", "1\n3\n4\n5\n6\n7\n8\n9\n10\n12\n", "b", far),
      "--- a\n+++ b\n@@ -1,4 +1,5 @@\n 1\n+A\n 3\n 4\n 5\n@@ -7,4 +8,5 @@\n 8\n 9\n 10\n+B\n 12\n");
}

}  // namespace
}  // namespace larder::kubectl
