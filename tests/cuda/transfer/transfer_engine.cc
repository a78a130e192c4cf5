// An engine in a separate process that stores forever by larderd's copies, for death_test.cc to
// kill.
#include "tests/cuda/transfer/transfer_fixture.h"

int main(int, char** arguments) {
  using namespace larder::test;
  EngineClient engine(arguments[1], kLayout, larder::copy::host_copy_engine(), "engine: made-up\n",
                      kAllocated);
  if (!engine.client->wait_attached(10'000).ok() || !await_open(engine)) return 3;
  for (std::uint64_t first = 100;; first += 3) engine.store(first, 3, 10'000);
}
