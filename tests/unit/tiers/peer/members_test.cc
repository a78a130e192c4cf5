// The members of a pool whose addresses change. This program's own getaddrinfo() gives the name
// "peers.test" the port that a test has set, and leaves other names to libc.
#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <cstring>
#include <string>

#include "tests/unit/tiers/peer/peer_fixture.h"

namespace larder::peer::testing_support {
namespace {

std::atomic<std::uint16_t> port_of_name = 0;
constexpr const char* kName = "peers.test";

int resolve(const char* host, const char* port, const addrinfo* hints, addrinfo** found) {
  static auto* const real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host == nullptr || std::strcmp(host, kName) != 0) return real(host, port, hints, found);
  if ((hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  return real("127.0.0.1", std::to_string(port_of_name).c_str(), hints, found);
}

TEST(MembersTest, MemberLeavesWithItsAddress) {
  const base::MonotonicClock clock;
  Holder first(clock), second(clock);
  first.put(1);
  second.put(2);
  ClientOptions options = client_options({{kName, 7000}});
  options.by_dns = true;
  options.resolve_ms = 20;
  port_of_name = first.endpoint().port;
  Asker asker(clock, options);
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_EQ(asker.probe(1, 2), (std::vector<bool>{true, false}));
  port_of_name = second.endpoint().port;
  EXPECT_TRUE(test::eventually([&] { return first.server->counters().connections == 0; }));
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_EQ(asker.probe(1, 2), (std::vector<bool>{false, true}));
  EXPECT_EQ(asker.tier->state().servers, 1U);
}

}  // namespace
}  // namespace larder::peer::testing_support

extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints,
                           addrinfo** found) {
  return larder::peer::testing_support::resolve(host, port, hints, found);
}
