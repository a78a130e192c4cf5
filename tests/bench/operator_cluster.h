// OperatorCluster: a kube-apiserver of the benchmark's own with our definitions, an operator and a larderd beside it; all end with it.
//
// Thread-compatible.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/component/kube/control_plane.h"

namespace larder::bench {

inline constexpr const char* kNamespace = "bench";

std::string pool_name(int i);
api::Object plain_pool(int i);
// Makes the i-th pod of `pools` pools as the injector would, and says that it runs.
Status run_pod(k8s::ApiClient& client, int i, int pools);

class OperatorCluster {
 public:
  // `programs`: a folder with larder-operator and larderd. Ends the process where it cannot be made.
  explicit OperatorCluster(std::string programs);
  ~OperatorCluster();

  k8s::ApiClient& client() { return *connection_->client; }
  // `work` for 0..count-1, some at a time. A failure is told and remembered.
  void each(int count, const std::function<Status(k8s::ApiClient&, int)>& work);
  void start_operator();
  double operator_rss_mib() const;
  double operator_cpu_s() const;
  void fail(const std::string& why);
  bool failed() const { return failed_; }

 private:
  const std::string programs_;
  std::unique_ptr<kube_test::ControlPlane> plane_;
  std::unique_ptr<kube_test::Connection> connection_;
  std::unique_ptr<kube_test::Child> larderd_, operator_;
  bool failed_ = false;
};

}  // namespace larder::bench
