// OperatorCluster: a kube-apiserver with Larder's definitions, an operator and a larderd, for one
// benchmark. All end on destruction.
//
// Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tests/component/kube/control_plane.h"

namespace larder::bench {

inline constexpr const char* kNamespace = "bench";

std::string pool_name(int i);
api::Object plain_pool(int i);
// Makes the ith pod of `pools` pools like the injector, with the status of a running pod.
Status run_pod(k8s::ApiClient& client, int i, int pools);
// A node object without a kubelet. Pods are spread over kNodes nodes.
inline constexpr int kNodes = 1000;
Status make_node(k8s::ApiClient& client, int i);

class OperatorCluster {
 public:
  // `programs`: a folder with larder-operator and larderd. A failure ends the process.
  explicit OperatorCluster(std::string programs);
  ~OperatorCluster();

  k8s::ApiClient& client() { return *connection_->client; }
  // Calls `work` for 0..count-1, some at a time. A failure is printed and remembered.
  void each(int count, const std::function<Status(k8s::ApiClient&, int)>& work);
  void start_operator();
  void stop_operator();
  // Requests to the API server since the operator's start.
  double operator_calls() const;
  double operator_rss_mib() const;
  double operator_cpu_s() const;
  void fail(const std::string& why);
  bool failed() const { return failed_; }

 private:
  const std::string programs_;
  std::unique_ptr<kube_test::ControlPlane> plane_;
  std::unique_ptr<kube_test::Connection> connection_;
  std::unique_ptr<kube_test::Child> larderd_, operator_;
  std::uint16_t metrics_port_ = 0;
  bool failed_ = false;
};

}  // namespace larder::bench
