// The API client at a real API server: the behaviour that a server in memory cannot prove.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "operator/k8s/event_recorder.h"
#include "operator/k8s/informer.h"
#include "tests/component/kube/kube_test.h"
#include "tests/eventually.h"

namespace larder::kube_test {
namespace {

using k8s::resources::kConfigMaps;

constexpr int kSoonMs = 60'000;

api::Object map_of(const std::string& name, const std::string& value) {
  return {
      {"apiVersion", "v1"},
      {"kind", "ConfigMap"},
      {"metadata", {{"namespace", "default"}, {"name", name}, {"labels", {{"test", "larder"}}}}},
      {"data", {{"value", value}}}};
}

bool soon(const std::function<bool()>& holds) {
  return test::eventually(holds, kSoonMs);
}

class ApiClientTest : public KubeTest {
 protected:
  ApiClientTest() { options_.page = 3; }
  void prepare() override {
    client_ = connection_->client.get();
    const auto left = client_->list(kConfigMaps, selected_);
    ASSERT_TRUE(left.ok()) << left.status().to_string();
    for (const api::Object& map : left->items)
      ASSERT_TRUE(client_->remove(kConfigMaps, "default", api::name_of(map), "").ok());
  }
  std::unique_ptr<k8s::Informer> informer() {
    return k8s::Informer::start(*client_, {kConfigMaps, selected_, nullptr, nullptr},
                                connection_->clock);
  }

  void restart() {
    plane_->restart_apiserver();
    ASSERT_TRUE(soon([&] { return client_->get_path("/api/v1/namespaces/default").ok(); }));
  }

  const k8s::Selector selected_{"default", "test=larder", ""};
  k8s::HttpClient* client_ = nullptr;
};

TEST_F(ApiClientTest, EveryVerb) {
  const auto made = client_->create(kConfigMaps, map_of("a", "1"));
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(client_->create(kConfigMaps, map_of("a", "1")).status().code(), Code::kAlreadyExists);
  api::Object changed = *made;
  changed["data"]["value"] = "2";
  const auto replaced = client_->replace(kConfigMaps, changed);
  ASSERT_TRUE(replaced.ok()) << replaced.status().to_string();
  EXPECT_EQ(client_->replace(kConfigMaps, changed).status().code(), Code::kFailedPrecondition)
      << "its version is old";
  const auto merged = client_->merge(kConfigMaps, "default", "a", {{"data", {{"other", "ä"}}}});
  ASSERT_TRUE(merged.ok()) << merged.status().to_string();
  EXPECT_EQ((*merged)["data"], (api::Object{{"value", "2"}, {"other", "ä"}}));
  EXPECT_EQ(
      client_->remove(kConfigMaps, "default", "a", "00000000-0000-0000-0000-000000000000").code(),
      Code::kOk);
  EXPECT_TRUE(client_->get(kConfigMaps, "default", "a").ok()) << "another's uid: this one stays";
  EXPECT_TRUE(
      client_->remove(kConfigMaps, "default", "a", api::text_at(*made, "metadata.uid")).ok());
  EXPECT_EQ(client_->get(kConfigMaps, "default", "a").status().code(), Code::kNotFound);
  EXPECT_TRUE(client_->remove(kConfigMaps, "default", "a", "").ok());
  EXPECT_EQ(
      client_
          ->create(kConfigMaps, {{"metadata", {{"namespace", "default"}, {"name", "Not A Name"}}}})
          .status()
          .code(),
      Code::kInvalidArgument);
  const auto version = client_->get_path("/version");
  ASSERT_TRUE(version.ok());
  EXPECT_EQ(api::text_at(*version, "major"), "1");
}

TEST_F(ApiClientTest, ApplyOwnsItsFieldsAndKeepsOtherFields) {
  ASSERT_TRUE(client_->apply(kConfigMaps, map_of("a", "1"), "").ok());
  ASSERT_TRUE(client_
                  ->merge(kConfigMaps, "default", "a",
                          {{"metadata", {{"annotations", {{"users", "own"}}}}}})
                  .ok());
  const auto applied = client_->apply(kConfigMaps, map_of("a", "2"), "");
  ASSERT_TRUE(applied.ok()) << applied.status().to_string();
  EXPECT_EQ((*applied)["data"]["value"], "2");
  EXPECT_EQ(api::annotation(*applied, "users"), "own");
  EXPECT_EQ((*applied)["metadata"]["managedFields"][0]["manager"], "larder-operator");
  EXPECT_EQ(client_->apply(kConfigMaps, *applied, "").status().code(), Code::kInvalidArgument)
      << "managedFields must not be sent";
}

TEST_F(ApiClientTest, PagesAndTheirAge) {
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(client_->create(kConfigMaps, map_of("m" + std::to_string(i), "1")).ok());
  const auto list = client_->list(kConfigMaps, selected_);
  ASSERT_TRUE(list.ok()) << list.status().to_string();
  EXPECT_EQ(list->items.size(), 10U);
  EXPECT_EQ(list->items[0]["kind"], "ConfigMap");

  // Between two pages everything becomes too old, once.
  int taken = 0, anew = 0;
  const auto version =
      client_->list_into(kConfigMaps, selected_,
                         {[&](api::Object) {
                            if (++taken != 1 || anew > 0) return;
                            ASSERT_TRUE(client_->apply(kConfigMaps, map_of("later", "1"), "").ok());
                            plane_->compact();
                            // the server lists from snapshots of its own, which
                            // the next one has not
                            restart();
                          },
                          [&] { ++anew, taken = 0; }});
  ASSERT_TRUE(version.ok()) << version.status().to_string();
  EXPECT_EQ(anew, 1);
  EXPECT_EQ(taken, 11);
}

TEST_F(ApiClientTest, WatchFromCompactedVersionIsReportedAsExpired) {
  ASSERT_TRUE(client_->apply(kConfigMaps, map_of("a", "1"), "").ok());
  const auto list = client_->list(kConfigMaps, selected_);
  ASSERT_TRUE(list.ok());
  plane_->compact();
  restart();  // the server keeps the latest changes in memory, which the next one has not
  const Status status =
      client_->watch(kConfigMaps, selected_, "1", {}, [](const k8s::WatchEvent&) {});
  EXPECT_EQ(status.code(), Code::kOutOfRange) << status.to_string();
}

TEST_F(ApiClientTest, StreamsListsWhereEtcdSupportsThem) {
  ASSERT_TRUE(client_->apply(kConfigMaps, map_of("a", "1"), "").ok());
  std::stop_source stop;
  bool whole = false;
  int added = 0;
  const Status status =
      client_->stream(kConfigMaps, selected_, stop.get_token(), [&](const k8s::WatchEvent& event) {
        if (event.type == k8s::WatchEvent::Type::kAdded) ++added;
        whole = event.initial_end;
        if (whole) stop.request_stop();
      });
  if (status.code() == Code::kUnsupported) {
    // Debian 12's: informers ask for pages
    std::printf("not with this etcd: %s\n", status.text().c_str());
    EXPECT_EQ(added, 0);
    return;
  }
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(whole);
  EXPECT_EQ(added, 1);
}

TEST_F(ApiClientTest, InformerFollowsAcrossApiServerRestart) {
  ASSERT_TRUE(client_->apply(kConfigMaps, map_of("a", "1"), "").ok());
  const auto seen = informer();
  ASSERT_TRUE(seen->await_sync(kSoonMs));
  EXPECT_EQ(seen->all().size(), 1U);
  ASSERT_TRUE(client_->apply(kConfigMaps, map_of("b", "1"), "").ok());
  EXPECT_TRUE(soon([&] { return seen->find("default", "b") != nullptr; }));

  restart();
  ASSERT_TRUE(client_->apply(kConfigMaps, map_of("c", "1"), "").ok());
  ASSERT_TRUE(client_->remove(kConfigMaps, "default", "a", "").ok());
  EXPECT_TRUE(soon([&] {
    return seen->find("default", "c") != nullptr && seen->find("default", "a") == nullptr;
  }));
  EXPECT_EQ(seen->all().size(), 2U);
}

TEST_F(ApiClientTest, EventsAreAccepted) {
  const auto map = client_->apply(kConfigMaps, map_of("a", "1"), "");
  ASSERT_TRUE(map.ok());
  k8s::EventRecorder recorder(*client_, "test", connection_->clock, connection_->metrics);
  recorder.record(
      {k8s::reference_to(*map), "Warning", "Tried", "Trying", "it did not work: try again"});
  ASSERT_TRUE(recorder.drain(kSoonMs));
  const auto events = client_->list(k8s::resources::kEvents, {"default", "", "reason=Tried"});
  ASSERT_TRUE(events.ok()) << events.status().to_string();
  ASSERT_EQ(events->items.size(), 1U);
  const std::string name = api::name_of(events->items[0]);
  const auto counted = client_->merge(
      k8s::resources::kEvents, "default", name,
      {{"series", {{"count", 5}, {"lastObservedTime", "2026-11-22T12:00:00.000000Z"}}}});
  EXPECT_TRUE(counted.ok()) << counted.status().to_string();
}

}  // namespace
}  // namespace larder::kube_test
