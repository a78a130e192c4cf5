// A real etcd and kube-apiserver for all tests of one program, and kubectl for this server. No
// controllers run: no pod ever starts.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "tests/component/command.h"
#include "tests/component/kube/control_plane.h"

namespace larder::test {

class ApiServer : public testing::Environment {
 public:
  void SetUp() override { plane_ = kube_test::ControlPlane::start(); }
  void TearDown() override { plane_.reset(); }

  // The reason for a missing server; empty: there is a server.
  std::string missing() const {
    return plane_ ? "" : "no kube-apiserver here: .ci/kubernetes.sh apiserver";
  }

  // REQUIRES, here and below: there is one.
  const kube_test::ControlPlane& plane() const { return *plane_; }
  Outcome kubectl(const std::string& words) const {
    return run("kubectl --kubeconfig " + plane_->kubeconfig() + " " + words, variables());
  }
  // With `text` as its file, "-f FILE" at the end.
  Outcome kubectl(const std::string& words, const std::string& text) const {
    const std::string file = plane_->folder() + "/given.yaml";
    std::ofstream(file) << text;
    return kubectl(words + " -f " + file);
  }

 private:
  static std::string variables() {
    const auto value = [](const char* name) {
      return std::string(std::getenv(name) == nullptr ? "" : std::getenv(name));
    };
    return "PATH=" + value("PATH") + " HOME=" + value("HOME");
  }

  std::unique_ptr<kube_test::ControlPlane> plane_;
};

// The server of this program. A variable of the test file asks for the server before main(), so
// that the server is started.
inline ApiServer& api_server() {
  // GoogleTest owns the object
  static auto* one = static_cast<ApiServer*>(testing::AddGlobalTestEnvironment(new ApiServer));
  return *one;
}

}  // namespace larder::test
