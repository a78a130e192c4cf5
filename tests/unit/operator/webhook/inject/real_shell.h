// Runs a container's command line like a kubelet and a shell, with programs in the place of vLLM
// that only report their arguments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::test {

// One start of an engine: the words behind `vllm` or `python3`, and its PYTHONPATH.
struct EngineStart {
  std::vector<std::string> argv;
  std::string python_path;
  bool operator==(const EngineStart&) const = default;
};

class RealShell {
 public:
  RealShell();
  ~RealShell();

  // All engines that the container starts, in order. `entrypoint`: the image's start for a pod
  // without a command. `image`: variables of the image, and values of the container's valueFrom.
  std::vector<EngineStart> run(const api::Object& container,
                               const std::vector<std::string>& entrypoint = {"vllm", "serve"},
                               const std::map<std::string, std::string>& image = {});
  bool ended_well() const { return status_ == 0; }

 private:
  std::string folder_;
  int status_ = 0;
};

}  // namespace larder::test
