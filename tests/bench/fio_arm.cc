#include "tests/bench/fio_arm.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace larder::bench {
namespace {

// Of fio's terse output, version 3: `;` between fields, KiB a second.
constexpr std::size_t kReadKib = 6, kWriteKib = 47;

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
  return ::pclose(pipe) == 0 ? text : "";
}

}  // namespace

double FioArm::gbs(bool reads, std::uint64_t pieces) {
  if (next_ + pieces > places_) next_ = 0;
  const std::uint64_t from = reads ? 0 : next_, span = reads ? places_ : pieces;
  if (!reads) next_ += pieces;
  std::ostringstream command;
  command << "fio --name=arm --thread --filename='" << file_
          << "' --direct=1 --ioengine=io_uring --iodepth=" << in_flight_ << " --bs=" << piece_bytes_
          << " --rw=" << (reads ? "randread" : "write") << " --offset=" << from * piece_bytes_
          << " --size=" << span * piece_bytes_ << " --io_size=" << pieces * piece_bytes_
          << " --norandommap --randseed=" << ++seed_
          << " --allow_file_create=0 --fallocate=none --scramble_buffers=0 --output-format=terse "
             "--terse-version=3";
  std::istringstream line(output_of(command.str()));
  std::vector<std::string> fields;
  for (std::string field; std::getline(line, field, ';');) fields.push_back(field);
  if (fields.size() <= kWriteKib) return 0;
  return std::strtod(fields[reads ? kReadKib : kWriteKib].c_str(), nullptr) * 1024 / 1e9;
}

}  // namespace larder::bench
