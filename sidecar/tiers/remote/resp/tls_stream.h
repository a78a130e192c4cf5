// TLS 1.2 or newer over a connected socket: the server's certificate and name are always checked. Owned by one thread, which has
// SIGPIPE blocked.
#pragma once

#include <memory>
#include <string>

#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/stream.h"

namespace larder::remote {

// Takes over the socket. Reads the files of `options`; an error names the one that is wrong. `host` is who must be named where the
// options do not say.
Result<std::unique_ptr<Stream>> open_tls_stream(std::unique_ptr<Stream> socket, const TlsOptions& options,
                                                const std::string& host);

}  // namespace larder::remote
