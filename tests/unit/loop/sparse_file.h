// A file as its runs of non-zero bytes, so that a fixture of many MiB is a few KiB in the
// repository.
//
//   packed := size:u64 run*        run := offset:u64 bytes:u64 byte[bytes]
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace larder::loop::testing_support {

inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void pack_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  constexpr std::size_t kGap = 32;  // zeroes that end a run
  const std::string bytes = file_bytes(from);
  std::ofstream packed(to, std::ios::binary);
  const auto put = [&packed](std::uint64_t word) {
    packed.write(reinterpret_cast<const char*>(&word), sizeof(word));
  };
  put(bytes.size());
  std::size_t begin = bytes.find_first_not_of('\0');
  while (begin != std::string::npos) {
    // `next`: the first byte behind `end` that belongs to no run
    std::size_t end = begin, next = begin;
    while (next != std::string::npos && next - end < kGap) {
      end = next + 1;
      next = bytes.find_first_not_of('\0', end);
    }
    put(begin);
    put(end - begin);
    packed.write(bytes.data() + begin, static_cast<std::streamsize>(end - begin));
    begin = next;
  }
}

// Zeroes are written too: larderd continues only with complete memory. False: `from` is no packed
// file.
inline bool unpack_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::string packed = file_bytes(from);
  std::uint64_t size = 0, run[2];
  if (packed.size() < sizeof(size)) return false;
  std::memcpy(&size, packed.data(), sizeof(size));
  std::string bytes(size, '\0');
  for (std::size_t at = sizeof(size); at < packed.size(); at += run[1]) {
    if (packed.size() - at < sizeof(run)) return false;
    std::memcpy(run, packed.data() + at, sizeof(run));
    at += sizeof(run);
    if (run[1] > packed.size() - at || run[0] > size || run[1] > size - run[0]) return false;
    std::memcpy(bytes.data() + run[0], packed.data() + at, run[1]);
  }
  std::ofstream file(to, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(size));
  return file.good();
}

}  // namespace larder::loop::testing_support
