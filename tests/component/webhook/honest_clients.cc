#include "tests/component/webhook/honest_clients.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "tests/component/webhook/one_pool.h"
#include "tests/unit/operator/webhook/certificate_of_now.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"
#include "tests/unit/operator/webhook/reviews.h"
#include "tests/unit/operator/webhook/tls_client.h"

namespace larder::component_test {
namespace {

using std::chrono::steady_clock;

constexpr int kConnections = 4;
constexpr int kNewEvery = 10;  // one review in so many comes over a new connection

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The fault of an answer; empty: a right answer.
std::string what_is_wrong(const HonestReview& review, const std::string& answer) {
  if (answer.empty()) return "no answer";
  return answer == review.answer ? ""
                                 : "another answer than the right one: " + answer.substr(0, 500);
}

bool gives_a_cache(const api::Object& pod, const std::string& answer) {
  const api::Object response = webhook::response_in(answer);
  return response.is_object() && response.contains("patch") &&
         api::annotation(pod.patch(response["patch"]), api::kInjectedAnnotation).has_value();
}

}  // namespace

WebhookServer::WebhookServer(const std::string& program) {
  std::string folder = (std::filesystem::temp_directory_path() / "larder-webhook-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return;
  folder_ = folder;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::execl(program.c_str(), program.c_str(), folder_.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 1000 && address_.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    address_ = read_file(std::filesystem::path(folder_) / "address");
  }
  bundle_ = read_file(std::filesystem::path(folder_) / "bundle");
}

WebhookServer::~WebhookServer() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (!folder_.empty()) std::filesystem::remove_all(folder_);
}

double WebhookServer::resident_mib() const {
  std::ifstream statm("/proc/" + std::to_string(pid_) + "/statm");
  double pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

std::vector<HonestReview> kserve_reviews(const std::string& repository) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(repository + "/tests/golden/inject"))
    if (file.path().filename().string().starts_with("kserve-") &&
        file.path().string().ends_with(".in.yaml"))
      files.push_back(file.path());
  std::ranges::sort(files);
  OnePool pools;
  const webhook::PodReview review = review_of_one_pool(pools);
  std::vector<HonestReview> reviews;
  for (const auto& file : files) {
    const api::Object pod = test::injection_case(read_file(file)).pod;
    const std::string body = webhook::review_of(pod, file.stem().string()).dump();
    const std::string answer = review(body, "127.0.0.1").body;
    if (gives_a_cache(pod, answer)) reviews.push_back({body, answer});
  }
  return reviews;
}

Served send_reviews(const WebhookServer& server, const std::vector<HonestReview>& reviews,
                    double rate, double seconds) {
  Served served;
  std::mutex mutex;
  const auto begin = steady_clock::now();
  const int count = static_cast<int>(rate * seconds);
  const auto send = [&](int first) {
    std::unique_ptr<webhook::TlsClient> kept;
    const webhook::TlsClient::Wanted wanted{.bundle = server.bundle(),
                                            .name = webhook::kServerName};
    for (int i = first; i < count; i += kConnections) {
      const auto due = begin + std::chrono::microseconds(static_cast<std::int64_t>(i * 1e6 / rate));
      std::this_thread::sleep_until(due);
      if (kept == nullptr || i % kNewEvery == 0)
        kept = std::make_unique<webhook::TlsClient>(server.address(), wanted);
      const HonestReview& review = reviews[static_cast<std::size_t>(i) % reviews.size()];
      const std::string wrong =
          what_is_wrong(review, kept->connected() ? kept->review(review.body) : "");
      const double ms =
          std::chrono::duration<double, std::milli>(steady_clock::now() - due).count();
      const std::lock_guard lock(mutex);
      served.ms.push_back(ms);
      if (wrong.empty()) continue;
      if (served.failed++ == 0)
        served.first_failure = wrong + (kept->connected() ? "" : ": " + kept->error());
      kept.reset();
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < kConnections; ++i) threads.emplace_back(send, i);
  threads.clear();
  return served;
}

}  // namespace larder::component_test
