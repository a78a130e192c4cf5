// ClientHello: how much of one must be here before memory is spent on it. Pure.
#pragma once

#include <cstddef>
#include <span>

namespace larder::webhook {

inline constexpr std::size_t kHelloStart = 9;  // bytes: the headers of the record and of the message
inline constexpr std::size_t kMostHello =
    8 * 1024;  // bytes: Go's with a key of ML-KEM has less than 2 KiB; OpenSSL would take 128

// Of the first bytes that a client sends: how many there must be to go on, kHelloStart or the whole first record. 0: that is no
// ClientHello, or one of more than kMostHello.
std::size_t hello_bytes(std::span<const char> first);

}  // namespace larder::webhook
