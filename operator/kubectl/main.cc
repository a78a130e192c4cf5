// kubectl-larder: the plug-in that `kubectl larder` runs. Wiring only.
#include <csignal>
#include <string_view>
#include <vector>

#include "operator/kubectl/plugin.h"
#include "sidecar/base/standard_streams.h"

int main(int argc, char** argv) {
  larder::base::open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file above `ulimit -f` gives an error message
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  return larder::base::after_output(larder::kubectl::run_plugin(words));
}
