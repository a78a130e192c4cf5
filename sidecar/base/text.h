// Numbers and names as people read them. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace larder::base {

std::string grouped(std::uint64_t number);                 // "12,345"
std::string plural(std::uint64_t count, const char* one);  // "1 chunk", "2 chunks"
std::string decimal_text(double number);                   // "12.5"
std::string bytes_text(std::uint64_t bytes);               // "5.0 GiB"
std::string seconds_text(double seconds);                  // "350 ms", "21.4 s", "2 h 14 min"
std::string percent_text(double part, double whole);       // "93.8%"; "-" of nothing

std::string rate_text(double per_second);       // "12.5/s", "1,234/s"
std::string byte_rate_text(double per_second);  // "5.0 MiB/s"

// A bar of `width` characters.
std::string bar(double part, double whole, int width);

// With control characters and bytes that are no UTF-8 escaped: engines choose their names, and a
// terminal obeys escape sequences.
std::string printable(std::string_view text);

// Characters of a printable text. A wide one of East Asia counts as one.
std::size_t width(std::string_view text);
// The first `most` characters of it.
std::string_view cut(std::string_view text, std::size_t most);

// In lower case (of ASCII).
std::string lower(std::string_view text);

// Cut or filled with spaces to `wide` characters.
std::string column(std::string_view text, std::size_t wide);

}  // namespace larder::base
