#include "sidecar/memory/huge_pages.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <cerrno>
#include <fstream>
#include <vector>

#include "sidecar/memory/wait_for_space.h"

namespace larder::memory {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

std::string size_name(std::uint64_t page_bytes) {
  return page_bytes >= kGiB ? std::to_string(page_bytes >> 30) + " GiB"
                            : std::to_string(page_bytes >> 20) + " MiB";
}
// "pagesize=1G" of a mount.
std::string mount_name(std::uint64_t page_bytes) {
  return page_bytes >= kGiB ? std::to_string(page_bytes >> 30) + "G"
                            : std::to_string(page_bytes >> 20) + "M";
}

// 0 for a missing file: a machine without this size of pages.
std::uint64_t read_number(const std::string& path) {
  std::uint64_t value = 0;
  std::ifstream(path) >> value;
  return value;
}

// The total number of pages to write into a file of the kernel, or behind `boot` ("1:" for node 1)
// on its command line.
struct Reservation {
  std::string boot;
  std::uint64_t pages = 0;
  std::string file;
};

// The files of the kernel about pages of one size.
class Pool {
 public:
  Pool(std::uint64_t page_bytes, const NumaNodes& nodes)
      : folder_("/hugepages/hugepages-" + std::to_string(page_bytes >> 10) + "kB/"),
        nodes_(nodes) {}

  bool exists() const { return std::ifstream(system() + "nr_hugepages").good(); }
  std::uint64_t total() const { return sum("nr_hugepages"); }
  // Minus reserved pages, which the kernel counts only for the whole machine.
  std::uint64_t free() const {
    const std::uint64_t free = sum("free_hugepages");
    const std::uint64_t promised = nodes_.empty() ? read_number(system() + "resv_hugepages") : 0;
    return free > promised ? free - promised : 0;
  }
  // The reservations that give `more` further pages, spread evenly over the nodes.
  std::vector<Reservation> with(std::uint64_t more) const {
    if (nodes_.empty()) return {{"", total() + more, system() + "nr_hugepages"}};
    std::vector<Reservation> all;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const std::string file = node(nodes_[i]) + "nr_hugepages";
      // The first nodes take the rest of the division.
      const std::uint64_t share = more / nodes_.size() + (i < more % nodes_.size() ? 1 : 0);
      all.push_back({std::to_string(nodes_[i]) + ":", read_number(file) + share, file});
    }
    return all;
  }

 private:
  std::string system() const { return "/sys/kernel/mm" + folder_; }
  std::string node(unsigned number) const {
    return "/sys/devices/system/node/node" + std::to_string(number) + folder_;
  }
  std::uint64_t sum(const std::string& name) const {
    if (nodes_.empty()) return read_number(system() + name);
    std::uint64_t total = 0;
    for (const unsigned number : nodes_) total += read_number(node(number) + name);
    return total;
  }

  const std::string folder_;
  const NumaNodes& nodes_;
};

Status check_mount(const std::string& directory, std::uint64_t page_bytes) {
  struct statfs info {};
  const int error = ::statfs(directory.c_str(), &info) != 0 ? errno : 0;
  // A missing directory gets the remedy below (mkdir and mount).
  if (error != 0 && error != ENOENT)
    return Status::from_errno(error, "memory.hugepage_directory " + directory);
  const bool hugetlbfs = error == 0 && info.f_type == HUGETLBFS_MAGIC;
  if (hugetlbfs && static_cast<std::uint64_t>(info.f_bsize) == page_bytes) return {};
  const std::string wanted = "no hugetlbfs of " + size_name(page_bytes) + " pages";
  const std::string has =
      hugetlbfs ? " (its pages have " + size_name(static_cast<std::uint64_t>(info.f_bsize)) + ")"
                : "";
  // Another hugetlbfs is mounted there. The text advises no mount over it: other programs may use
  // it.
  const std::string place = hugetlbfs ? directory + "-" + mount_name(page_bytes) : directory;
  return {Code::kFailedPrecondition,
          "memory.hugepage_directory " + directory + " is " + wanted + has + ": mkdir -p " + place +
              " && mount -t hugetlbfs -o pagesize=" + mount_name(page_bytes) + " none " + place +
              (hugetlbfs ? ", and name that" : "")};
}

// Whether `sysctl vm.nr_hugepages` means pages of this size: a machine for pages of 1 GiB may boot
// with another default size.
bool default_size(std::uint64_t page_bytes) {
  std::ifstream facts("/proc/meminfo");
  const std::string size = " " + std::to_string(page_bytes >> 10) + " kB";
  for (std::string line; std::getline(facts, line);)
    if (line.starts_with("Hugepagesize:")) return line.ends_with(size);
  return false;
}

// The advice to get `more` further pages.
std::string remedy(std::uint64_t page_bytes, const Pool& pool, std::uint64_t more, bool on_nodes) {
  const std::vector<Reservation> all = pool.with(more);
  std::string boot, now;
  // Example for two nodes: "hugepages=0:512,1:512" at boot, and two `echo` commands for now.
  for (const Reservation& reservation : all) {
    const std::string count = std::to_string(reservation.pages);
    boot += (boot.empty() ? "" : ",") + reservation.boot + count;
    now += (now.empty() ? "" : "; ") + ("echo " + count + " > " + reservation.file);
  }
  if (page_bytes >= kGiB)
    return "reserve them at boot (kernel command line: hugepagesz=" + mount_name(page_bytes) +
           " hugepages=" + boot + "), or try now: " + now +
           "; memory.hugepages: 2Mi needs no pieces as large";
  return on_nodes || !default_size(page_bytes) ? now : "sysctl vm.nr_hugepages=" + boot;
}

}  // namespace

Status check_huge_pages(const std::string& directory, std::uint64_t page_bytes,
                        std::uint64_t arena_bytes, const NumaNodes& nodes) {
  const Pool pool(page_bytes, nodes);
  if (!pool.exists())
    return {Code::kUnsupported,
            "this machine has no huge pages of " + size_name(page_bytes) +
                (page_bytes >= kGiB ? " (pdpe1gb in /proc/cpuinfo): memory.hugepages: 2Mi" : "")};
  if (Status status = check_mount(directory, page_bytes); !status.ok()) return status;
  const std::uint64_t needed = (arena_bytes + page_bytes - 1) / page_bytes;
  const std::uint64_t total = pool.total();
  // As for tmpfs: engines may still map the arena of an earlier larderd.
  const std::uint64_t free = wait_for_space(needed, total, [&] { return pool.free(); });
  if (free >= needed) return {};
  const std::string where =
      nodes.empty()
          ? ""
          : " on node" + std::string(nodes.size() > 1 ? "s " : " ") + print_node_list(nodes);
  return {Code::kResourceExhausted, std::to_string(free) + " of " + std::to_string(needed) +
                                        " huge pages of " + size_name(page_bytes) + " are free" +
                                        where + ": " +
                                        remedy(page_bytes, pool, needed - free, !nodes.empty())};
}

}  // namespace larder::memory
