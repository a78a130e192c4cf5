// TLS 1.2 or newer over a connected socket. The certificate and name of the server are always
// checked; a server here checks those of its clients. With TlsOptions::strict a connection fails
// (kPermissionDenied) once a certificate of the other side expires. Owned by one thread with
// SIGPIPE blocked.
#pragma once

#include <memory>
#include <string>

#include "sidecar/net/endpoint.h"
#include "sidecar/net/stream.h"

namespace larder::net {

// Takes over the socket. Reads the files of `options`; an error names the wrong file. The
// certificate must name `host`, unless the options have a server_name.
Result<std::unique_ptr<Stream>> open_tls_stream(std::unique_ptr<Stream> socket,
                                                const TlsOptions& options, const std::string& host);

// The side of the server. The client must have a certificate of the authorities in ca_file with the
// name in server_name. REQUIRES: ca_file, cert_file, key_file and server_name are set.
Result<std::unique_ptr<Stream>> accept_tls_stream(std::unique_ptr<Stream> socket,
                                                  const TlsOptions& options);

// Whether the files of `options` can be read and fit together; an error names the wrong file.
Status check_tls_files(const TlsOptions& options);

}  // namespace larder::net
