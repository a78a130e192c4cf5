// The lines of an engine's log without a session: a user's words and a remedy, no name of a code.
#include "shim/client/no_cache.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing_support::EngineClient;
using testing_support::kPlainLayout;

constexpr const char* kStart = "no cache for now, trying on: ";

TEST(NoCacheLineTest, ContainsNoErrorCode) {
  for (int code = 1; code <= static_cast<int>(Code::kInternal); ++code) {
    const Status why(static_cast<Code>(code), "the reason");
    const std::string line = no_cache_line(why);
    EXPECT_THAT(line, StartsWith(std::string(kStart) + "the reason"));
    EXPECT_THAT(line, Not(HasSubstr(std::string(code_name(why.code())))));
  }
}

class NoCacheTest : public loop::testing_support::SidecarTest {
 protected:
  // The first line of an engine whose socket is `socket`.
  static std::string first_line(const std::string& socket) {
    EngineClient engine(socket, kPlainLayout);
    for (int i = 0; i < 1000; ++i) {
      if (const auto line = engine.client->next_log()) return *line;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return "";
  }
};

// covers F-001
TEST_F(NoCacheTest, MissingLarderdIsReported) {
  EXPECT_EQ(first_line(directory_ + "/absent.sock"),
            "warning " + std::string(kStart) + "connect to " + directory_ +
                "/absent.sock: No such file or directory. Is larderd running? LARDER_SOCKET, or "
                "the engine's option socket, names another socket");
}

// covers F-001
TEST_F(NoCacheTest, WrongSocketKindIsReported) {
  const std::string path = directory_ + "/x.admin";
  const int other = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(other, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(other, 1), 0);
  const std::string line = first_line(path);
  ::close(other);
  EXPECT_THAT(line, HasSubstr("name larderd's socket for engines, without .admin?"));
  EXPECT_THAT(line, Not(HasSubstr("internal")));
}

}  // namespace
}  // namespace larder::client
