#include "tests/crash/point_page.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "shim/base/test_point.h"

namespace larder::crash {
namespace {

constexpr useconds_t kNapUs = 20;
std::atomic<PointPage*> announced_in{nullptr};

}  // namespace

PointPage& PointPage::make() {
  void* memory =
      ::mmap(nullptr, sizeof(PointPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return *new (memory) PointPage();
}

PointPage::Place& PointPage::at(std::string_view point) {
  const auto found = std::find(kPoints.begin(), kPoints.end(), point);
  if (found != kPoints.end()) return places_[static_cast<std::size_t>(found - kPoints.begin())];
  std::fprintf(stderr, "point_page.h does not list the point %.*s\n",
               static_cast<int>(point.size()), point.data());
  std::abort();
}

void PointPage::stop_at(std::string_view point, std::uint32_t nth) {
  at(point).standing = 0;
  at(point).countdown = nth;
}

bool PointPage::await(std::string_view point, std::uint32_t timeout_ms) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (at(point).standing == 0 && std::chrono::steady_clock::now() < end) ::usleep(kNapUs);
  return at(point).standing != 0;
}

void PointPage::go(std::string_view point) {
  at(point).countdown = 0;
  at(point).standing = 0;
}

std::uint64_t PointPage::reached(std::string_view point) const {
  return at(point).reached;
}

void PointPage::disarm() {
  for (Place& place : places_) place.countdown = place.standing = 0;
}

void PointPage::reach(std::string_view point) noexcept {
  Place& place = at(point);
  ++place.reached;
  std::uint32_t left = place.countdown;
  while (left != 0 && !place.countdown.compare_exchange_weak(left, left - 1)) continue;
  if (left != 1) return;
  place.standing = 1;
  while (place.standing != 0) ::usleep(kNapUs);
}

void announce_in(PointPage* page) {
  announced_in = page;
}

}  // namespace larder::crash

namespace larder {

void reach_test_point(const char* name) noexcept {
  constexpr std::string_view kPrefix = "larder-point ";
  crash::PointPage* page = crash::announced_in;
  if (page != nullptr) page->reach(std::string_view(name).substr(kPrefix.size()));
}

}  // namespace larder
