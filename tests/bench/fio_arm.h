// FioArm: the same reads and appends by fio, the disk tester that people know, over io_uring with as many in flight as the tier has.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace larder::bench {

class FioArm {
 public:
  // Over an existing file of `places` pieces of so many bytes, all of them written.
  FioArm(std::string file, std::uint64_t piece_bytes, std::uint64_t places, unsigned in_flight)
      : file_(std::move(file)), piece_bytes_(piece_bytes), places_(places), in_flight_(in_flight) {}

  // Reads at random, or writes one after the other behind those of the last call. GB/s as fio measured it; 0: fio failed, or is
  // not there, which it has said on stderr.
  double gbs(bool reads, std::uint64_t pieces);

 private:
  std::string file_;
  std::uint64_t piece_bytes_, places_, next_ = 0, seed_ = 0;
  unsigned in_flight_;
};

}  // namespace larder::bench
