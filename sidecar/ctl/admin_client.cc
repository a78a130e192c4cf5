#include "sidecar/ctl/admin_client.h"

#include <httplib.h>
#include <sys/un.h>

#include "sidecar/ctl/report.h"

namespace larder::ctl {
namespace {

constexpr time_t kTimeoutSeconds = 5;  // longer than larderd's own 1 s for a verb

Status unreachable(const std::string& admin_socket, httplib::Error error) {
  const int err = errno;
  // The engines' socket is a SOCK_SEQPACKET: a stream connection fails with EPROTOTYPE.
  if (err == EPROTOTYPE)
    return {Code::kInvalidArgument, admin_socket +
                                        " is the socket of the engines: give larderctl the socket "
                                        "beside, which ends in .admin"};
  if (error == httplib::Error::Connection && err == EACCES)
    return {Code::kPermissionDenied, "no permission to ask larderd on " + admin_socket +
                                         ": the socket is for its user and group (socket_mode)"};
  // The most common case: larderd does not run, or uses another socket path.
  if (error == httplib::Error::Connection)
    return {Code::kUnavailable, "no larderd answers on " + admin_socket + " (" +
                                    std::generic_category().message(err) +
                                    "). Is larderd running? --socket, or larderd's configuration "
                                    "in the environment, names another socket"};
  return {Code::kDeadlineExceeded,
          "larderd on " + admin_socket +
              " took the request but gave no answer: " + httplib::to_string(error)};
}

}  // namespace

Result<std::string> ask_larderd(const std::string& admin_socket, Verb verb, const std::string& path,
                                const std::string& json) {
  // cpp-httplib would report a path that is too long as a failed connection.
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (admin_socket.size() > kLongest)
    return Status(Code::kInvalidArgument, "'" + admin_socket +
                                              "' is too long for a Unix socket: at most " +
                                              std::to_string(kLongest) + " bytes");
  // For a Unix socket the "host" is the path; the port has no meaning.
  httplib::Client client(admin_socket, 80);
  client.set_address_family(AF_UNIX);
  client.set_connection_timeout(kTimeoutSeconds);
  client.set_read_timeout(kTimeoutSeconds);
  client.set_write_timeout(kTimeoutSeconds);
  // A fixed Host, since the path of a socket is no name of a host.
  client.set_default_headers({{"Host", "larderd"}});
  const httplib::Result result =
      verb == Verb::kGet ? client.Get(path) : client.Post(path, json, "application/json");
  if (!result) return unreachable(admin_socket, result.error());
  // The body has larderd's words, with the remedy.
  if (result->status != 200) return Status(Code::kFailedPrecondition, error_of(result->body));
  return result->body;
}

// For values of a query: encodes more than necessary, never less.
std::string percent_encoded(const std::string& text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kHex[byte >> 4];
      encoded += kHex[byte & 15];
    }
  }
  return encoded;
}

}  // namespace larder::ctl
