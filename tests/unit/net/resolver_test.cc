// Names to addresses, also on a machine without a further thread.
#include "sidecar/net/resolver.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

namespace larder::net {
namespace {

using Found = std::optional<Result<std::vector<Address>>>;

// No thread can be started meanwhile: its stack would be larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t endless;
    pthread_attr_init(&endless);
    pthread_attr_setstacksize(&endless, std::size_t{1} << 50);
    works_ = pthread_setattr_default_np(&endless) == 0;
    pthread_attr_destroy(&endless);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  bool works() const { return works_; }

 private:
  pthread_attr_t before_;
  bool works_ = false;
};

// covers F-201
TEST(ResolverTest, ResolutionIsRetriedAfterAFailedThreadStart) {
  const Fd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Resolver resolver({"localhost"}, ready);
  {
    const NoThreads none;
    ASSERT_TRUE(none.works());
    const Found found = resolver.poll();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->status().code(), Code::kUnavailable);
  }
  Found found = resolver.poll();
  ASSERT_FALSE(found.has_value()) << "a thread asks";
  pollfd polled{ready.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&polled, 1, 20'000), 1);
  found = resolver.poll();
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->ok()) << found->status().to_string();
}

TEST(ResolverTest, AddressesAndPathsNeedNoThread) {
  const Fd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const NoThreads none;
  for (const Endpoint& endpoint :
       {Endpoint{"127.0.0.1"}, Endpoint{"::1"}, Endpoint{"", 0, "/run/a.sock"}}) {
    Resolver resolver(endpoint, ready);
    const Found found = resolver.poll();
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(found->ok() && !(**found).empty()) << text_of(endpoint);
  }
}

}  // namespace
}  // namespace larder::net
