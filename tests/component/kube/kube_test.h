// KubeTest: a test with a real API server of its suite and a client of this server. Without the
// server's programs the tests of the suite are skipped.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "tests/component/kube/control_plane.h"

namespace larder::kube_test {

class KubeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { plane_ = ControlPlane::start(); }
  static void TearDownTestSuite() { plane_.reset(); }

  void SetUp() final {
    if (plane_ == nullptr) GTEST_SKIP() << "no kube-apiserver here: .ci/kubernetes.sh apiserver";
    connection_ = std::make_unique<Connection>(*plane_, options_);
    prepare();
  }
  void TearDown() final {
    if (plane_ != nullptr) clean();
  }
  // Run before and after each test that has a server.
  virtual void prepare() {}
  virtual void clean() {}

  k8s::ApiClient& client() { return *connection_->client; }

  inline static std::unique_ptr<ControlPlane> plane_;  // one suite at a time
  k8s::ClientOptions options_;                         // set in the constructor of a fixture
  std::unique_ptr<Connection> connection_;
};

}  // namespace larder::kube_test
