// The names of sidecar/net that the remote tier uses: one connection, RESP, and the place of a
// server.
#pragma once

#include "sidecar/net/breaker.h"
#include "sidecar/net/connection.h"
#include "sidecar/net/endpoint.h"
#include "sidecar/net/poller.h"
#include "sidecar/net/resolver.h"
#include "sidecar/net/tls_stream.h"

namespace larder::remote {

using net::Address;
using net::Around;
using net::Breaker;
using net::Connection;
using net::Endpoint;
using net::Expect;
using net::format_around;
using net::format_command;
using net::Lane;
using net::Moved;
using net::open_socket_stream;
using net::open_tls_stream;
using net::parse_length;
using net::Poller;
using net::ReceiveWindow;
using net::Reply;
using net::ReplyParser;
using net::ReplyScanner;
using net::Request;
using net::Resolver;
using net::Stream;
using net::text_of;
using net::Then;
using net::TlsOptions;
using net::unix_address;
using net::waiting_bytes;

}  // namespace larder::remote
