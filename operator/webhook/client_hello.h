// ClientHello: the bytes that must arrive before the server spends memory on TLS. Until then a
// client costs only a descriptor. Pure.
#pragma once

#include <cstddef>
#include <span>

namespace larder::webhook {

// Bytes: the headers of the record and of the message.
inline constexpr std::size_t kHelloStart = 9;
inline constexpr std::size_t kMostHello =
    8 * 1024;  // bytes: Go's with a key of ML-KEM has less than 2 KiB; OpenSSL would take 128

// The number of bytes needed to continue, from a client's first bytes: kHelloStart or the whole
// first record. 0: no ClientHello, or more than kMostHello.
std::size_t hello_bytes(std::span<const char> first);

}  // namespace larder::webhook
