#include "operator/k8s/curl_transport.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "operator/k8s/write_guard.h"

namespace larder::k8s {
namespace {

constexpr long kConnectTimeoutMs = 5'000;
constexpr std::uint64_t kLongestNapMs = 1'000;  // between two looks at the clock
constexpr std::uint64_t kFenceNapMs = 50;       // a release may bring the fence down early

struct FreeList {
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, FreeList>;

// curl_slist_append() returns the first node, which differs from the old one only for an empty
// list. On failure the old list stays valid.
void append(List& list, const std::string& text) {
  curl_slist* longer = ::curl_slist_append(list.get(), text.c_str());
  if (longer == nullptr) return;
  std::ignore = list.release();
  list.reset(longer);
}

// A token goes over plain HTTP only to this machine (kubectl proxy).
bool is_this_machine(const std::string& server) {
  const std::string host = server.substr(server.find("//") + 2);
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

// The caller repeats kUnavailable only. A wrong certificate or URL stays wrong, so a repetition
// would only hide the error.
Code code_of(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT: return Code::kDeadlineExceeded;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR: return Code::kPermissionDenied;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL: return Code::kInvalidArgument;
    case CURLE_OUT_OF_MEMORY: return Code::kResourceExhausted;
    default: return Code::kUnavailable;
  }
}

Status fence_is_down() {
  return {Code::kFailedPrecondition, "the leader's lease is not held: no write is sent"};
}

}  // namespace

// One connection: an easy handle that keeps its TCP connection between requests. A thread owns the
// line during a request.
class CurlTransport::Line {
 public:
  explicit Line(std::uint64_t tls_version)
      : tls_version_(tls_version), multi_(::curl_multi_init()), easy_(::curl_easy_init()) {}
  ~Line() {
    ::curl_easy_cleanup(easy_);
    ::curl_multi_cleanup(multi_);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  bool whole() const { return multi_ != nullptr && easy_ != nullptr; }
  std::uint64_t tls_version() const { return tls_version_; }

  Result<Response> run(const Request& request, const Credentials& credentials,
                       const base::Clock& clock,
                       const std::function<bool(std::string_view)>* on_bytes);

 private:
  void set_up(const Request& request, const Credentials& credentials);
  void set_up_tls(const Credentials& credentials);
  Status drive(const Request& request, const base::Clock& clock);
  Status why_end(const Request& request, const base::Clock& clock, std::uint64_t deadline_ms) const;
  Status failure(CURLcode code) const;
  std::size_t take_header(std::string_view line);
  std::size_t take_body(std::string_view bytes);

  // curl calls this between the connection and the first byte of the request. A TLS handshake may
  // take longer than the lease.
  static int on_request(void* line, char*, char*, int, int) {
    const auto& guard = static_cast<Line*>(line)->guard_;
    return guard && guard->down() ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
  }
  // The sockets are opened here, so WriteGuard knows every socket before the first byte.
  static curl_socket_t on_open(void* line, curlsocktype, curl_sockaddr* address) {
    const int socket =
        ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (socket >= 0) static_cast<Line*>(line)->sockets_.add(socket);
    return socket;
  }
  static int on_close(void* line, curl_socket_t socket) {
    static_cast<Line*>(line)->sockets_.remove(socket);
    return ::close(socket);
  }
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* line) {
    return static_cast<Line*>(line)->take_header({data, size * count});
  }
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* line) {
    return static_cast<Line*>(line)->take_body({data, size * count});
  }

  const std::uint64_t tls_version_;
  CURLM* multi_;
  CURL* easy_;
  GuardedSockets sockets_;

  // State of the current request.
  Response response_;
  const std::function<bool(std::string_view)>* on_bytes_ = nullptr;
  std::optional<WriteGuard> guard_;  // for a request with a fence
  std::size_t header_bytes_ = 0;
  bool enough_ = false;  // on_bytes_ returned false
  bool moved_ = false;   // bytes arrived since the last look
  Status refused_;       // the reason of a callback that ended the request
  List headers_, connect_to_;
  char error_[CURL_ERROR_SIZE] = {};
};

// Called for each header line, also for those of an interim answer (100 Continue) before the real
// answer.
std::size_t CurlTransport::Line::take_header(std::string_view line) {
  header_bytes_ += line.size();
  moved_ = true;
  if (header_bytes_ > kMostHeaderBytes) {
    refused_ = Status(Code::kOutOfRange, "the answer's header fields are longer than 64 KiB");
    return 0;
  }
  // curl passes the name as the server wrote it; header names ignore case (RFC 9110, section 5.1).
  constexpr std::string_view kName = "retry-after:";
  const bool named = line.size() > kName.size() &&
                     std::equal(kName.begin(), kName.end(), line.begin(), [](char a, char b) {
                       return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
                     });
  // A status line begins a new header. The Retry-After of an interim answer must not count for the
  // last one.
  if (line.starts_with("HTTP/")) response_.retry_after.clear();
  if (!named) return line.size();
  const std::string_view value = line.substr(kName.size());
  const std::size_t first = value.find_first_not_of(" \t");
  if (first != std::string_view::npos)
    response_.retry_after = value.substr(first, value.find_last_not_of(" \t\r\n") + 1 - first);
  return line.size();
}

// Only a 200 is a stream of events. The body of an error goes into the message, within a small
// bound.
std::size_t CurlTransport::Line::take_body(std::string_view bytes) {
  moved_ = true;
  long status = 0;
  ::curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  const bool streamed = on_bytes_ != nullptr && status == 200;
  if (streamed) {
    enough_ = !(*on_bytes_)(bytes);
    // 0 in place of the size makes curl end the transfer with CURLE_WRITE_ERROR. drive() reads
    // enough_ or refused_ for the reason.
    return enough_ ? 0 : bytes.size();
  }
  // Every answer has a bound. A truncated answer is an error of curl (CURLE_PARTIAL_FILE), and no
  // shorter object.
  const std::size_t most = on_bytes_ != nullptr ? kMostErrorBytes : api::kMostBytes;
  if (response_.body.size() + bytes.size() > most) {
    refused_ =
        Status(Code::kOutOfRange, "the answer is longer than " + std::to_string(most) + " bytes");
    return 0;
  }
  response_.body += bytes;
  return bytes.size();
}

void CurlTransport::Line::set_up_tls(const Credentials& credentials) {
  const auto blob = [this](CURLoption option, const std::string& text) {
    curl_blob bytes{const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY};
    if (!text.empty()) ::curl_easy_setopt(easy_, option, &bytes);
  };
  ::curl_easy_setopt(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  ::curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYPEER, credentials.verify ? 1L : 0L);
  // The value 2 makes curl compare the server's name with the certificate.
  ::curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYHOST, credentials.verify ? 2L : 0L);
  // An empty ca_pem leaves curl's own authorities in use.
  blob(CURLOPT_CAINFO_BLOB, credentials.ca_pem);
  blob(CURLOPT_SSLCERT_BLOB, credentials.certificate_pem);
  blob(CURLOPT_SSLKEY_BLOB, credentials.key_pem);
}

void CurlTransport::Line::set_up(const Request& request, const Credentials& credentials) {
  // A reset keeps the connection and the TLS session, and removes the options of the previous
  // request.
  ::curl_easy_reset(easy_);
  std::string server = credentials.server;
  connect_to_.reset();
  if (!credentials.server_name.empty()) {
    // The URL gets the expected name, which TLS checks; the connection still goes to the server.
    const std::string host = server.substr(server.find("//") + 2);
    const std::size_t colon = host.find_last_of(":]");
    const std::string port =
        colon != std::string::npos && host[colon] == ':' ? host.substr(colon + 1) : "443";
    append(connect_to_,
           "::" + host.substr(0, host.size() - (host.ends_with(":" + port) ? port.size() + 1 : 0)) +
               ":" + port);
    server = "https://" + credentials.server_name + ":" + port;
    ::curl_easy_setopt(easy_, CURLOPT_CONNECT_TO, connect_to_.get());
  }
  headers_.reset();
  append(headers_, "Accept: application/json");
  // Without this line, curl would send "Expect: 100-continue" with large bodies and wait for the
  // answer.
  append(headers_, "Expect:");
  if (!request.content_type.empty()) append(headers_, "Content-Type: " + request.content_type);
  if (!credentials.token.empty()) append(headers_, "Authorization: Bearer " + credentials.token);
  ::curl_easy_setopt(easy_, CURLOPT_URL, (server + request.path).c_str());
  // Names of objects are escaped by paths.cc. curl would otherwise remove "." and ".." from the
  // path.
  ::curl_easy_setopt(easy_, CURLOPT_PATH_AS_IS, 1L);
  // CUSTOMREQUEST and not CURLOPT_POST: PUT, PATCH and DELETE of the API server have bodies, too.
  ::curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (!request.content_type.empty()) {
    ::curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(request.body.size()));
    ::curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, request.body.c_str());
  }
  ::curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_.get());
  // A kubeconfig may name any URL: curl's other protocols, such as file://, are refused here.
  ::curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "https,http");
  ::curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  // curl would otherwise use SIGALRM for time-outs of name lookups, in a process of many threads.
  ::curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(easy_, CURLOPT_TCP_KEEPALIVE, 1L);  // finds a vanished server in 2 minutes
  ::curl_easy_setopt(easy_, CURLOPT_TCP_KEEPIDLE, 30L);
  ::curl_easy_setopt(easy_, CURLOPT_TCP_KEEPINTVL, 10L);
  ::curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  ::curl_easy_setopt(easy_, CURLOPT_USERAGENT, "larder-operator/" LARDER_VERSION);
  if (!credentials.proxy.empty())
    ::curl_easy_setopt(easy_, CURLOPT_PROXY, credentials.proxy.c_str());
  ::curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &on_header);
  ::curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  ::curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &on_body);
  ::curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  ::curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_);
  ::curl_easy_setopt(easy_, CURLOPT_PREREQFUNCTION, &on_request);
  ::curl_easy_setopt(easy_, CURLOPT_PREREQDATA, this);
  ::curl_easy_setopt(easy_, CURLOPT_OPENSOCKETFUNCTION, &on_open);
  ::curl_easy_setopt(easy_, CURLOPT_OPENSOCKETDATA, this);
  ::curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETFUNCTION, &on_close);
  ::curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETDATA, this);
  set_up_tls(credentials);
}

Status CurlTransport::Line::failure(CURLcode code) const {
  const char* text = error_[0] != '\0' ? error_ : ::curl_easy_strerror(code);
  return {code_of(code), text};
}

// Why the request must end early; ok: continue.
// Every call ends by its deadline, by a stop, or by its fence.
Status CurlTransport::Line::why_end(const Request& request, const base::Clock& clock,
                                    std::uint64_t deadline_ms) const {
  if (request.stop.stop_requested()) return {Code::kUnavailable, "stopping"};
  if (guard_ && guard_->down()) return fence_is_down();
  if (clock.now_ms() >= deadline_ms) return {Code::kDeadlineExceeded, "no whole answer in time"};
  return {};
}

// Works until the answer is complete. Asks the fence before each piece of work, which may send
// bytes.
Status CurlTransport::Line::drive(const Request& request, const base::Clock& clock) {
  // The deadline counts by the given clock, so tests own the time.
  const std::uint64_t deadline_ms =
      clock.now_ms() + static_cast<std::uint64_t>(request.timeout.count());
  const std::uint64_t silence_ms = static_cast<std::uint64_t>(request.silence.count());
  // A stop must end a wait of up to a second at once. curl_multi_wakeup() is the one call that
  // other threads may make.
  const std::stop_callback wake(request.stop, [this] { ::curl_multi_wakeup(multi_); });
  std::uint64_t heard_ms = clock.now_ms();
  for (;;) {
    if (Status status = why_end(request, clock, deadline_ms); !status.ok()) return status;
    int running = 0;
    if (const CURLMcode code = ::curl_multi_perform(multi_, &running); code != CURLM_OK)
      return {Code::kInternal, ::curl_multi_strerror(code)};
    if (running == 0) break;
    const std::uint64_t now_ms = clock.now_ms();
    if (std::exchange(moved_, false)) heard_ms = now_ms;
    // A watch without bytes for so long is ended in order (ok), and the informer begins the next
    // one. Bookmarks of a healthy server come about once a minute.
    if (silence_ms != 0 && now_ms - heard_ms >= silence_ms) {
      enough_ = true;
      return {};
    }
    // With a fence the naps are short: a release or a new holder may bring the fence down before
    // its time.
    std::uint64_t nap_ms = std::min(guard_ ? kFenceNapMs : kLongestNapMs,
                                    deadline_ms > now_ms ? deadline_ms - now_ms : 0);
    if (silence_ms != 0) nap_ms = std::min(nap_ms, heard_ms + silence_ms - now_ms);
    ::curl_multi_poll(multi_, nullptr, 0, static_cast<int>(nap_ms), nullptr);
  }
  int left = 0;
  const CURLMsg* message = ::curl_multi_info_read(multi_, &left);
  if (message == nullptr) return {Code::kInternal, "the request ended without a result"};
  // A stream that was ended by its reader counts as success, although curl reports a write error.
  if (message->data.result == CURLE_OK || enough_) return {};
  return refused_.ok() ? failure(message->data.result) : refused_;
}

Result<Response> CurlTransport::Line::run(const Request& request, const Credentials& credentials,
                                          const base::Clock& clock,
                                          const std::function<bool(std::string_view)>* on_bytes) {
  response_ = {};
  on_bytes_ = on_bytes;
  header_bytes_ = 0;
  enough_ = moved_ = false;
  refused_ = {};
  error_[0] = '\0';
  set_up(request, credentials);
  if (::curl_multi_add_handle(multi_, easy_) != CURLM_OK)
    return Status(Code::kInternal, "curl_multi_add_handle");
  // The guard arms its timer before the first byte, and covers the whole request.
  if (request.fence != nullptr) guard_.emplace(*request.fence, sockets_);
  Status status = drive(request, clock);
  // A fired guard looks like a broken connection.
  if (!status.ok() && guard_ && guard_->down()) status = fence_is_down();
  long answered = 0;
  ::curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &answered);
  guard_.reset();
  ::curl_multi_remove_handle(multi_, easy_);  // closes the connection of an incomplete answer
  if (!status.ok()) return status;
  response_.status = static_cast<int>(answered);
  return std::move(response_);
}

CurlTransport::CurlTransport(CredentialSource& credentials, const base::Clock& clock)
    : credentials_(credentials), clock_(clock) {
  // curl_global_init() is not thread-safe in older versions; a static local runs once.
  static const CURLcode once = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  std::ignore = once;
}

CurlTransport::~CurlTransport() = default;

// Connections with earlier certificates are dropped here, at the next request, and not by a thread
// of their own.
std::unique_ptr<CurlTransport::Line> CurlTransport::take(std::uint64_t tls_version) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(idle_, [&](const auto& line) { return line->tls_version() != tls_version; });
    if (!idle_.empty()) {
      std::unique_ptr<Line> line = std::move(idle_.back());
      idle_.pop_back();
      return line;
    }
  }
  return std::make_unique<Line>(tls_version);
}

void CurlTransport::keep(std::unique_ptr<Line> line) {
  const std::lock_guard lock(mutex_);
  // A burst of parallel requests may open more lines; those beyond kMostKept are closed after use.
  if (idle_.size() < kMostKept) idle_.push_back(std::move(line));
}

Result<Response> CurlTransport::run(const Request& request,
                                    const std::function<bool(std::string_view)>* on_bytes) {
  const std::shared_ptr<const Credentials> credentials = credentials_.current();
  const bool secret = !credentials->token.empty() || !credentials->key_pem.empty();
  // A kubeconfig of `kubectl proxy` names http://localhost. Any other plain HTTP would show the
  // token to the network.
  if (secret && credentials->server.starts_with("http://") && !is_this_machine(credentials->server))
    return Status(Code::kPermissionDenied,
                  credentials->server + ": a token is not sent over plain HTTP, use https://");
  std::unique_ptr<Line> line = take(credentials->tls_version);
  if (!line->whole()) return Status(Code::kResourceExhausted, "no memory for a connection");
  Result<Response> response = line->run(request, *credentials, clock_, on_bytes);
  if (response.ok()) keep(std::move(line));
  if (response.ok()) return response;
  // The error names the server alone: no token or key appears in an error, a log line or a metric.
  return Status(response.status().code(), credentials->server + ": " + response.status().text());
}

Result<Response> CurlTransport::exchange(const Request& request) {
  return run(request, nullptr);
}

Result<Response> CurlTransport::stream(const Request& request,
                                       const std::function<bool(std::string_view)>& on_bytes) {
  return run(request, &on_bytes);
}

}  // namespace larder::k8s
