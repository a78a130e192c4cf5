#include "sidecar/ipc/huge_pages.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <cerrno>
#include <fstream>

#include "sidecar/ipc/await_room.h"

namespace larder::ipc {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

std::string size_name(std::uint64_t page_bytes) {
  return page_bytes >= kGiB ? std::to_string(page_bytes >> 30) + " GiB" : std::to_string(page_bytes >> 20) + " MiB";
}
// "pagesize=1G" of a mount.
std::string mount_name(std::uint64_t page_bytes) {
  return page_bytes >= kGiB ? std::to_string(page_bytes >> 30) + "G" : std::to_string(page_bytes >> 20) + "M";
}

std::uint64_t read_number(const std::string& path) {
  std::uint64_t value = 0;
  std::ifstream(path) >> value;
  return value;
}

// The kernel's files about pages of one size.
class Pool {
 public:
  Pool(std::uint64_t page_bytes, const NumaNodes& nodes)
      : folder_("/hugepages/hugepages-" + std::to_string(page_bytes >> 10) + "kB/"), nodes_(nodes) {}

  bool exists() const { return std::ifstream(system() + "nr_hugepages").good(); }
  std::uint64_t total() const { return sum("nr_hugepages"); }
  // Less those promised to others, which the kernel counts for the whole machine alone.
  std::uint64_t free() const {
    const std::uint64_t free = sum("free_hugepages");
    const std::uint64_t promised = nodes_.empty() ? read_number(system() + "resv_hugepages") : 0;
    return free > promised ? free - promised : 0;
  }
  // The file that reserves pages, of the first node where there are some.
  std::string reserving_file() const { return (nodes_.empty() ? system() : node(nodes_.front())) + "nr_hugepages"; }

 private:
  std::string system() const { return "/sys/kernel/mm" + folder_; }
  std::string node(unsigned number) const { return "/sys/devices/system/node/node" + std::to_string(number) + folder_; }
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
  if (error != 0 && error != ENOENT) return Status::from_errno(error, "memory.hugepage_directory " + directory);
  const bool hugetlbfs = error == 0 && info.f_type == HUGETLBFS_MAGIC;
  if (hugetlbfs && static_cast<std::uint64_t>(info.f_bsize) == page_bytes) return {};
  const std::string wanted = "no hugetlbfs of " + size_name(page_bytes) + " pages";
  const std::string has = hugetlbfs ? " (its pages have " + size_name(static_cast<std::uint64_t>(info.f_bsize)) + ")" : "";
  // Over another hugetlbfs nobody should mount: others may use it.
  const std::string place = hugetlbfs ? directory + "-" + mount_name(page_bytes) : directory;
  return {Code::kFailedPrecondition, "memory.hugepage_directory " + directory + " is " + wanted + has + ": mkdir -p " + place +
                                         " && mount -t hugetlbfs -o pagesize=" + mount_name(page_bytes) + " none " + place +
                                         (hugetlbfs ? ", and name that" : "")};
}

// How to come to `wanted` pages.
std::string remedy(std::uint64_t page_bytes, const Pool& pool, std::uint64_t wanted, bool on_nodes) {
  const std::string count = std::to_string(wanted);
  const std::string now = "echo " + count + " > " + pool.reserving_file();
  if (page_bytes >= kGiB)
    return "reserve them at boot (kernel command line: hugepagesz=" + mount_name(page_bytes) + " hugepages=" + count +
           "), or try now: " + now + "; memory.hugepages: 2Mi needs no pieces as large";
  return on_nodes ? now : "sysctl vm.nr_hugepages=" + count;
}

}  // namespace

Status check_huge_pages(const std::string& directory, std::uint64_t page_bytes, std::uint64_t arena_bytes,
                        const NumaNodes& nodes) {
  const Pool pool(page_bytes, nodes);
  if (!pool.exists())
    return {Code::kUnsupported, "this machine has no huge pages of " + size_name(page_bytes) +
                                    (page_bytes >= kGiB ? " (pdpe1gb in /proc/cpuinfo): memory.hugepages: 2Mi" : "")};
  if (Status status = check_mount(directory, page_bytes); !status.ok()) return status;
  const std::uint64_t needed = (arena_bytes + page_bytes - 1) / page_bytes;
  const std::uint64_t total = pool.total();
  const std::uint64_t free = await_room(needed, total, [&] { return pool.free(); });
  if (free >= needed) return {};
  const std::string where = nodes.empty() ? "" : " on node" + std::string(nodes.size() > 1 ? "s " : " ") + print_node_list(nodes);
  return {Code::kResourceExhausted, std::to_string(free) + " of " + std::to_string(needed) + " huge pages of " +
                                        size_name(page_bytes) + " are free" + where + ": " +
                                        remedy(page_bytes, pool, total + needed - free, !nodes.empty())};
}

}  // namespace larder::ipc
