// server_process FOLDER: the admission server with the real injector, in a process of its own, so
// that a test can look at the memory. Writes FOLDER/bundle (the authority to trust) and
// FOLDER/address, and serves until a kill. Every pod is of one pool.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "operator/webhook/admission_server.h"
#include "sidecar/base/log.h"
#include "tests/component/webhook/one_pool.h"
#include "tests/unit/operator/webhook/certificate_of_now.h"

namespace {

using namespace larder;

int serve(const std::filesystem::path& folder) {
  const webhook::TestAuthority authority;
  webhook::TlsAcceptor acceptor;
  if (!acceptor.serve(authority.leaf()).ok()) return 1;
  component_test::OnePool pools;
  const webhook::PodReview review = component_test::review_of_one_pool(pools);
  const auto server =
      webhook::AdmissionServer::start({.address = "127.0.0.1:0"}, acceptor, review, nullptr);
  if (!server.ok()) return 1;
  std::ofstream(folder / "bundle") << authority.bundle();
  std::ofstream(folder / "address.new") << (*server)->address();
  std::filesystem::rename(folder / "address.new", folder / "address");
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  base::set_log_level(base::LogLevel::kError);
  return serve(argv[1]);
}
