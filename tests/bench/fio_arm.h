// FioArm: the same reads and appends by fio, the well-known disk tester, over io_uring with the
// tier's number of requests in flight.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace larder::bench {

class FioArm {
 public:
  // Over an existing file of `places` written pieces of the given size.
  FioArm(std::string file, std::uint64_t piece_bytes, std::uint64_t places, unsigned in_flight)
      : file_(std::move(file)), piece_bytes_(piece_bytes), places_(places), in_flight_(in_flight) {}

  // Reads at random, or appends behind the writes of the last call. Returns fio's GB/s; 0: fio
  // failed or is missing, with a line on stderr.
  double gbs(bool reads, std::uint64_t pieces);

 private:
  std::string file_;
  std::uint64_t piece_bytes_, places_, next_ = 0, seed_ = 0;
  unsigned in_flight_;
};

}  // namespace larder::bench
