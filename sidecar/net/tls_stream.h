// TLS 1.2 or newer over a connected socket. The certificate and name of the server are always
// checked. Owned by one thread with SIGPIPE blocked.
#pragma once

#include <memory>
#include <string>

#include "sidecar/net/endpoint.h"
#include "sidecar/net/stream.h"

namespace larder::net {

// Takes over the socket. Reads the files of `options`; an error names the wrong file. The
// certificate must name `host`, unless the options have a server_name.
Result<std::unique_ptr<Stream>> open_tls_stream(std::unique_ptr<Stream> socket, const TlsOptions& options,
                                                const std::string& host);

}  // namespace larder::net
