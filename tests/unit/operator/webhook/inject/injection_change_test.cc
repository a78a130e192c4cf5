// How results of injections are written as changes to the usual one.
#include "tests/unit/operator/webhook/inject/injection_change.h"

#include <gtest/gtest.h>

namespace larder::test {
namespace {

using api::Object;

const UsualPod kUsual = {
    Object::parse(R"({"spec": {"containers": [{"name": "engine", "command": ["serve"]}]}})"),
    Object::parse(R"({"metadata": {"labels": {"pool": "a"}},
  "spec": {"containers": [{"name": "engine", "command": ["serve", "--flag"], "env": [{"name": "SOCKET", "value": "s"}]}],
           "initContainers": [{"name": "larder", "image": "i", "ports": [{"name": "metrics", "containerPort": 1}]}]}})")};

Object pod(const char* text) {
  return Object::parse(text);
}

Object result(const Object& before, const Object& after) {
  webhook::Injection injection;
  injection.patch = {{{"op", "replace"}, {"path", ""}, {"value", after}}};
  return result_of(before, injection, kUsual);
}

TEST(InjectionChange, UsualPodHasNoChange) {
  EXPECT_EQ(result(kUsual.before, kUsual.after), Object::object());
}

TEST(InjectionChange, ShowsChangedMissingAndRemovedValues) {
  Object after = kUsual.after;
  after["metadata"].erase("labels");
  after["metadata"]["name"] = "b";
  after["spec"]["containers"][0]["command"] = {"serve", "--other"};
  Object before = kUsual.before;
  before["spec"]["hostIPC"] = true;
  EXPECT_EQ(result(before, after), pod(R"({"container": {"command": ["serve", "--other"]},
    "metadata": {"labels": null, "name": "b"}, "spec": {"hostIPC": "gone"}})"));
}

TEST(InjectionChange, ReferencesPresentOrUsualElementsByName) {
  Object before = kUsual.before, after = kUsual.after;
  const Object theirs = {{"name", "theirs"}};
  before["spec"]["initContainers"] = {theirs};
  after["spec"]["initContainers"].push_back(theirs);
  EXPECT_EQ(result(before, after),
            pod(R"({"spec": {"initContainers": ["usual larder", "same theirs"]}})"));
  std::swap(after["spec"]["initContainers"][0], after["spec"]["initContainers"][1]);
  EXPECT_EQ(result(before, after),
            pod(R"({"spec": {"initContainers": ["same theirs", "usual larder"]}})"));
}

TEST(InjectionChange, ShowsDifferingFieldsOfAnElement) {
  Object after = kUsual.after;
  after["spec"]["initContainers"][0]["image"] = "j";
  after["spec"]["initContainers"][0]["ports"].push_back({{"name", "alive"}});
  EXPECT_EQ(result(kUsual.before, after), pod(R"({"spec": {"initContainers": [
    {"usual": "larder", "image": "j", "ports": ["same metrics", {"name": "alive"}]}]}})"));
}

TEST(InjectionChange, ShowsAListWithDuplicateNamesVerbatim) {
  Object after = kUsual.after;
  const Object twice = pod(R"([{"name": "A"}, {"name": "A"}])");
  after["spec"]["containers"][0]["env"] = twice;
  EXPECT_EQ(result(kUsual.before, after),
            pod(R"({"container": {"env": [{"name": "A"}, {"name": "A"}]}})"));
}

TEST(InjectionChange, RefusedPodShowsTheReason) {
  webhook::Injection injection;
  injection.refused = "no room; make some";
  EXPECT_EQ(result_of(kUsual.before, injection, kUsual),
            pod(R"({"not injected": "no room; make some"})"));
  injection = {};
  injection.passed_by = "asks for nothing";
  EXPECT_EQ(result_of(kUsual.before, injection, kUsual), "passed by");
}

}  // namespace
}  // namespace larder::test
