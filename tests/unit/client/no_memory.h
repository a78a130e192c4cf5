// Allocations that fail on demand (no_memory_test.cc replaces operator new in this test program).
#pragma once

namespace larder::client::testing_support {

// While it is set, operator new throws std::bad_alloc on this thread.
extern thread_local bool no_memory;

}  // namespace larder::client::testing_support
