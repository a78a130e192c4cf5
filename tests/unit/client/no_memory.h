// Allocations that fail on demand (no_memory_test.cc replaces operator new in this test program).
#pragma once

namespace larder::client::testing_support {

// From here on operator new throws std::bad_alloc on this thread, or no longer. A function: GCC's
// sanitizer takes a thread_local of another file for a null pointer.
void set_no_memory(bool none);

}  // namespace larder::client::testing_support
