// A kubeconfig file, and the files named in it.
//
// Promises: a refusal names file and reason, and has no token; an accepted file gives a server by
// its URL, and tokens that end no header field before its time.
#include <sys/mman.h>
#include <unistd.h>

#include "operator/k8s/credentials.h"
#include "shim/base/fd.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;

// A file of this text under a name of its own.
class TextFile {
 public:
  explicit TextFile(const std::string& text) : fd_(::memfd_create("kubeconfig", MFD_CLOEXEC)) {
    must(fd_.valid() &&
             ::write(fd_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
         "a file is made");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  const Fd fd_;
};

bool is_one_line(const std::string& text) {
  return text.find_first_of("\r\n") == std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TextFile file(Input(data, size).rest());
  const auto source = k8s::CredentialSource::from_kubeconfig(file.path());
  if (!source.ok()) {
    must(source.status().text().starts_with("kubeconfig " + file.path() + ": "),
         "a refusal names the file");
    must(source.status().text().size() > file.path().size() + 14, "a refusal says why");
    return 0;
  }
  const auto credentials = (*source)->current();
  const std::string& server = credentials->server;
  must(server.starts_with("https://") || server.starts_with("http://"),
       "a server is reached by HTTP");
  must(!server.ends_with('/'), "a path can be appended");
  must(is_one_line(credentials->token), "a token is one line: a header field has the token");
  return 0;
}
