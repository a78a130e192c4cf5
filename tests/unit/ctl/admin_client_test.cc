#include "sidecar/ctl/admin_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <filesystem>

#include "sidecar/ctl/report.h"
#include "sidecar/ctl/snapshot.h"
#include "sidecar/pages/server.h"
#include "tests/unit/pages/fake_control.h"

namespace larder::ctl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// larderctl's client against the real HTTP room.
class AdminClientTest : public testing::Test {
 protected:
  AdminClientTest() {
    config_.http.listen = "";
    config_.http.admin_socket =
        testing::TempDir() + "larder_ctl_test." + std::to_string(::getpid()) + ".admin";
    std::filesystem::remove(config_.http.admin_socket);
  }
  void start() {
    Result<std::unique_ptr<pages::HttpServer>> server = pages::HttpServer::start(config_, control_);
    ASSERT_TRUE(server.ok()) << server.status().text();
    server_ = std::move(*server);
  }
  Result<std::string> ask(Verb verb, const std::string& path) {
    return ask_larderd(config_.http.admin_socket, verb, path);
  }

  config::Config config_;
  pages::FakeControl control_;
  std::unique_ptr<pages::HttpServer> server_;
};

TEST_F(AdminClientTest, ReadsStatusOfTheRealServer) {
  start();
  const Result<std::string> status = ask(Verb::kGet, "/v1/status");
  ASSERT_TRUE(status.ok()) << status.status().text();
  EXPECT_TRUE(read_snapshot(*status).ok());
  EXPECT_EQ(*dropped_report(*ask(Verb::kPost, "/v1/clear")), "dropped 11 chunks\n");
  EXPECT_EQ(*dropped_report(*ask(Verb::kPost, "/v1/drop?namespace=" + percent_encoded("a b/ü&c"))),
            "dropped 7 chunks\n");
  EXPECT_THAT(control_.dropped(), ElementsAre("a b/ü&c"));
}

TEST_F(AdminClientTest, ReportsTheErrorOfLarderd) {
  start();
  EXPECT_THAT(ask(Verb::kPost, "/v1/drop?namespace=beef").status().text(),
              HasSubstr("no namespace beef"));
}

TEST_F(AdminClientTest, ReportsThatNoLarderdAnswers) {
  const std::string text = ask(Verb::kGet, "/v1/status").status().text();
  EXPECT_THAT(text, AllOf(HasSubstr("no larderd answers on " + config_.http.admin_socket),
                          HasSubstr("Is larderd running?")));
}

TEST_F(AdminClientTest, ReportsMissingPermission) {
  start();
  std::filesystem::permissions(config_.http.admin_socket, std::filesystem::perms::none);
  // of this thread; without the right, the mode alone refuses
  const int before = ::setfsuid(65534);
  const std::string text = ask(Verb::kGet, "/v1/status").status().text();
  ::setfsuid(static_cast<uid_t>(before));
  EXPECT_EQ(text, "no permission to ask larderd on " + config_.http.admin_socket +
                      ": the socket is for its user and group (socket_mode)");
}

TEST_F(AdminClientTest, ReportsTooLongPath) {
  EXPECT_THAT(ask_larderd("/" + std::string(200, 'x'), Verb::kGet, "/v1/status").status().text(),
              HasSubstr("x' is too long for a Unix socket: at most 107 bytes"));
}

}  // namespace
}  // namespace larder::ctl
