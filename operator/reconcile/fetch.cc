#include "operator/reconcile/fetch.h"

#include <curl/curl.h>

#include <vector>

namespace larder::reconcile {
namespace {

constexpr int kWaitMs = 200;  // between looks at `stop`

struct FreeMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};

// A running GET.
struct Transfer {
  std::unique_ptr<CURL, FreeEasy> easy;
  std::size_t index = 0, most_bytes = 0;
  std::string body;
};

// libcurl's callback: fewer bytes than given end the transfer.
std::size_t receive(char* bytes, std::size_t, std::size_t count, void* target) {
  auto& transfer = *static_cast<Transfer*>(target);
  if (transfer.body.size() + count > transfer.most_bytes)
    return 0;  // curl ends it with CURLE_WRITE_ERROR
  transfer.body.append(bytes, count);
  return count;
}

// Each answer comes from a process at a pod's address, which may be anything: HTTP only, no
// redirect into the cluster, and a bound on bytes and time.
void prepare(Transfer& transfer, const std::string& url) {
  CURL* easy = transfer.easy.get();
  curl_easy_reset(easy);
  transfer.body.clear();
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  // An empty proxy switches off HTTP_PROXY of the environment: pods are reached directly.
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, long{Fetch::kDeadlineMs});
  // An answer is mostly small, and 32 transfers run at once.
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 4096L);
  curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);  // larderd closes a connection after one answer
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
}

Result<std::string> outcome(Transfer& transfer, CURLcode code) {
  long http = 0;
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &http);
  if (code == CURLE_OPERATION_TIMEDOUT) return Status(Code::kDeadlineExceeded, "no answer in time");
  if (code == CURLE_WRITE_ERROR) return Status(Code::kOutOfRange, "the answer is too long");
  if (code != CURLE_OK) return Status(Code::kUnavailable, curl_easy_strerror(code));
  if (http != 200) return Status(Code::kUnavailable, "HTTP " + std::to_string(http));
  return std::move(transfer.body);
}

// One thread with a multi handle asks 32 pods at once.
class CurlFetch final : public Fetch {
 public:
  CurlFetch() : multi_(curl_multi_init()) {}

  void get_all(std::span<const std::string> urls, std::size_t most_bytes, std::stop_token stop,
               const OnAnswer& on_answer) override {
    if (multi_ == nullptr) return;
    // The slots are reused: a round over a thousand pods opens 32 handles.
    std::vector<Transfer> transfers(std::min<std::size_t>(urls.size(), kAtOnce));
    std::size_t next = 0, under_way = 0;
    const auto begin = [&](Transfer& transfer) {
      if (next == urls.size() || stop.stop_requested()) return;
      if (!transfer.easy) transfer.easy.reset(curl_easy_init());
      if (!transfer.easy) return;
      transfer.index = next++;
      transfer.most_bytes = most_bytes;
      prepare(transfer, urls[transfer.index]);
      if (curl_multi_add_handle(multi_.get(), transfer.easy.get()) == CURLM_OK) ++under_way;
    };
    for (Transfer& transfer : transfers) begin(transfer);
    while (under_way > 0 && !stop.stop_requested()) {
      int running = 0;
      if (curl_multi_perform(multi_.get(), &running) != CURLM_OK) break;
      under_way -= end_those_done(on_answer, begin);
      if (under_way > 0) curl_multi_poll(multi_.get(), nullptr, 0, kWaitMs, nullptr);
    }
    // A stop leaves transfers unfinished, without a call of on_answer. The next round asks again.
    for (Transfer& transfer : transfers)
      if (transfer.easy) curl_multi_remove_handle(multi_.get(), transfer.easy.get());
  }

 private:
  // A finished slot begins its next transfer inside the loop, so one slow pod delays no other.
  template <typename Begin>
  std::size_t end_those_done(const OnAnswer& on_answer, const Begin& begin) {
    std::size_t ended = 0;
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      Transfer* transfer = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      curl_multi_remove_handle(multi_.get(), message->easy_handle);
      on_answer(transfer->index, outcome(*transfer, code));
      ++ended;
      begin(*transfer);
    }
    return ended;
  }

  std::unique_ptr<CURLM, FreeMulti> multi_;
};

}  // namespace

std::unique_ptr<Fetch> Fetch::make() {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  static_cast<void>(ready);
  return std::make_unique<CurlFetch>();
}

}  // namespace larder::reconcile
