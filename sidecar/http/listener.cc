#include "sidecar/http/listener.h"

#include <sys/socket.h>

#include <utility>

#include "sidecar/base/tcp_listener.h"
#include "sidecar/base/unix_listener.h"

namespace larder::http {

Result<Listener> listen_tcp(const config::ListenAddress& address, const std::string& key) {
  Result<base::TcpListener> opened = base::listen_tcp(address.host, address.port, key);
  if (!opened.ok()) return opened.status();
  // The names of the address itself. larderd replaces this list by http.hosts, too
  // (sidecar/pages/server.cc).
  return Listener{std::move(opened->socket), std::move(opened->address), opened->loopback,
                  Hosts::of(address, opened->loopback)};
}

Result<Listener> listen_unix(const std::string& path, std::uint32_t mode) {
  Result<Fd> socket = base::listen_unix({path, mode, SOCK_STREAM, base::kListenBacklog,
                                         "http.admin_socket", "set another http.admin_socket",
                                         "the folder must exist and be writable, or set another"});
  if (!socket.ok()) return socket.status();
  // No check of Host: a web page cannot open a Unix socket.
  return Listener{.socket = std::move(*socket), .address = path};
}

}  // namespace larder::http
