// LARDER_POINT(name): an instruction by name, where the tests of tests/crash stop a process,
// or kill it.
//
// Absent from the product. Every room has a twin in CMake, NAME_points, built with
// LARDER_TEST_POINTS for those tests alone.
#pragma once

#if defined(LARDER_TEST_POINTS)
namespace larder {
// Defined by the test program; thread-safe, may take as long as it likes. `name` lives for ever and
// begins with "larder-point ".
void reach_test_point(const char* name) noexcept;
}  // namespace larder
#define LARDER_POINT(name) ::larder::reach_test_point("larder-point " #name)
#else
#define LARDER_POINT(name) static_cast<void>(0)
#endif
