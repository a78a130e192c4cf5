// larderctl: asks a running larderd, and helps to configure one. Wiring only.
#include <csignal>
#include <string_view>
#include <vector>

#include "sidecar/base/standard_streams.h"
#include "sidecar/ctl/larderctl.h"

int main(int argc, char** argv) {
  larder::base::open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file over `ulimit -f` is an error with words
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  return larder::base::after_output(larder::ctl::run(words));
}
