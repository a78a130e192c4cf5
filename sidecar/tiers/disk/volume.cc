#include "sidecar/tiers/disk/volume.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <span>
#include <thread>

#include "sidecar/base/file_write.h"
#include "sidecar/base/sizes.h"

namespace larder::disk {
namespace {

// A region is the unit of eviction: a sixteenth of the file at most, so opening one loses little.
// Small regions would waste a footer and two syncs on few chunks.
constexpr std::uint64_t kLeastRegionBytes = 4ULL << 20;
constexpr std::uint64_t kMostRegionBytes = 256ULL << 20;
constexpr std::uint64_t kRegionShare = 16;  // of the size
constexpr std::uint64_t kBesideSlotBytes =
    (1ULL + footer_blocks(1)) * kBlockBytes;  // in a region: the head of the record, and the footer
// The part of disk.size that stays free for metadata of the file system, which `du` counts for the
// file, and for `owner`. The file takes the rest and never grows.
constexpr std::uint64_t kNotesShare = 1024;
constexpr std::uint64_t kLeastNotesBytes = 64 * 1024;
constexpr std::string_view kPageCache = "page cache",
                           kStartsEmpty = "starts empty";  // kinds of Note
// Two seconds in all. A supervisor restarts larderd at once after a kill, while the kernel still
// ends the writes.
constexpr int kLockAttempts = 100;
constexpr std::chrono::milliseconds kLockPause{20};

Status path_error(const Status& status, const std::string& path, const std::string& what) {
  return {status.code(), "disk.path: " + path + " " + what + " (" + status.text() + ")"};
}

std::uint64_t usable(std::uint64_t size_bytes) {
  const std::uint64_t notes = std::max(kLeastNotesBytes, size_bytes / kNotesShare) + kHeadBytes;
  return size_bytes > notes ? size_bytes - notes : 0;
}

std::uint64_t chosen_region_bytes(const DiskOptions& options) {
  if (options.region_bytes != 0) return options.region_bytes;
  return std::bit_floor(
      std::clamp(options.size_bytes / kRegionShare, kLeastRegionBytes, kMostRegionBytes));
}

// The least disk size with regions for such a slot. 0: no size is enough.
std::uint64_t least_size(std::uint64_t slot_bytes) {
  const std::uint64_t region = std::bit_ceil(slot_bytes + kBesideSlotBytes);
  return region > kMostRegionBytes ? 0 : region * kRegionShare;
}

Status check_size(const DiskOptions& options) {
  const std::uint64_t region = chosen_region_bytes(options);
  if (usable(options.size_bytes) / region >= kLeastRegions) return {};
  const std::uint64_t least = kLeastRegions * region + kHeadBytes +
                              std::max(kLeastNotesBytes, options.size_bytes / kNotesShare);
  return {Code::kInvalidArgument, "disk.size: " + base::mib(options.size_bytes) +
                                      " is too small, the disk tier needs at least " +
                                      base::mib(least)};
}

// Opens the folder of the tier, which only the user of larderd may enter.
Result<std::string> open_directory(Env& env, const DiskOptions& options, std::uint64_t on_device,
                                   Volume& volume) {
  const Result<FileFacts> path = env.facts(options.path + "/.");
  if (!path.ok())
    return path_error(path.status(), options.path, "is not a directory that can be used");
  volume.path_device = path->device;
  // After an unmount the path is an empty folder of the root disk. Reserving disk.size there could
  // fill the node.
  if (on_device != 0 && path->device != on_device)
    return Status(Code::kUnavailable,
                  "disk.path: " + options.path + " is on another device than at the start");
  const std::string folder = options.path + "/larder";
  if (const Status made = env.make_directory(folder, 0700); !made.ok())
    return path_error(made, options.path, "cannot be written");
  const Result<FileFacts> facts = env.facts(folder);
  if (!facts.ok()) return path_error(facts.status(), folder, "cannot be read");
  const std::string start = "disk.path: " + folder;
  if (!facts->directory) return Status(Code::kPermissionDenied, start + " is not a directory");
  if (facts->owner != ::geteuid())
    return Status(Code::kPermissionDenied,
                  start + " belongs to user " + std::to_string(facts->owner) + ", not to this one");
  // The chunks hold the prompts of users. larderd refuses an open folder, and a person decides
  // about the mode.
  if ((facts->mode & 077) != 0)
    return Status(
        Code::kPermissionDenied,
        start +
            " can be entered by other users: the folder holds users' data, chmod 700 the folder");
  return folder;
}

std::string read_owner(Env& env, const std::string& path) {
  const Result<Fd> file = env.open(path, O_RDONLY, 0);
  char text[256];
  const ssize_t got = file.ok() ? ::read(file->get(), text, sizeof(text)) : 0;
  return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : "another larderd";
}

// For people; no code depends on the text.
void write_owner(Env& env, const std::string& path, const std::string& owner) {
  const Result<Fd> file = env.open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const std::string text = owner + ", process " + std::to_string(::getpid());
  if (file.ok())
    static_cast<void>(
        base::write_all(file->get(), std::as_bytes(std::span(text)), "write " + path));
}

Status lock_file(Env& env, const DiskOptions& options, const std::string& folder, Volume& volume) {
  volume.file_path = folder + "/chunks";
  Result<Fd> file = env.open(volume.file_path, O_RDWR | O_CREAT, 0600);
  if (!file.ok())
    return path_error(file.status(), volume.file_path, "cannot be opened for writing");
  Status locked = env.lock(*file);
  // A larderd that was just killed keeps the lock until the kernel has ended its requests.
  for (int i = 0; i < kLockAttempts && locked.code() == Code::kAlreadyExists; ++i) {
    std::this_thread::sleep_for(kLockPause);
    locked = env.lock(*file);
  }
  if (locked.code() == Code::kAlreadyExists)
    return {Code::kAlreadyExists,
            "disk.path: " + folder + " is in use by " + read_owner(env, folder + "/owner")};
  if (!locked.ok()) return path_error(locked, volume.file_path, "cannot be locked");
  write_owner(env, folder + "/owner", options.owner);
  volume.file = std::move(*file);
  const Result<FileFacts> facts = env.facts(volume.file_path);
  if (!facts.ok()) return path_error(facts.status(), volume.file_path, "went away");
  volume.file_facts = *facts;
  // Direct I/O: the chunks are in memory already, a second copy in the page cache would take
  // memory from the node.
  volume.direct = options.allow_direct && env.set_direct(volume.file);
  if (!volume.direct)
    volume.notes.push_back(
        {kPageCache,
         "through the page cache: the file system refuses O_DIRECT, or O_DIRECT is turned off"});
  return {};
}

IoRequest request(IoRequest::Kind kind, const Volume& volume, std::uint64_t offset,
                  std::span<std::byte> bytes) {
  IoRequest made;
  made.kind = kind;
  made.fd = volume.file.get();
  made.offset = offset;
  made.parts[0] = bytes;
  return made;
}

// Whether the file has a superblock that describes its content.
Result<bool> read_superblock(Device& device, const DiskOptions& options,
                             std::span<std::byte> scratch, Volume& volume) {
  if (volume.file_facts.bytes == 0) return false;
  // A truncated file has no superblock, and no record can be trusted.
  if (volume.file_facts.bytes < kHeadBytes) {
    volume.notes.push_back({kStartsEmpty, "starts empty: its file is cut off"});
    return false;
  }
  const std::span<std::byte> head = scratch.first(kHeadBytes);
  const Status read = device.run(request(IoRequest::Kind::kRead, volume, 0, head));
  if (!read.ok()) return path_error(read, volume.file_path, "cannot be read");
  Superblock first, second;
  const SuperblockFault one = decode_superblock(head.first(kSuperblockBytes), first);
  const SuperblockFault two = decode_superblock(head.last(kSuperblockBytes), second);
  if (one != SuperblockFault::kNone && two != SuperblockFault::kNone) {
    volume.notes.push_back(
        {kStartsEmpty, one == SuperblockFault::kOtherVersion
                           ? "starts empty: its file is of another format version"
                           : "starts empty: both labels of its file are damaged"});
    return false;
  }
  // The next write begins with the other copy, so a kill meanwhile leaves this one.
  volume.whole_label = two == SuperblockFault::kNone &&
                               (one != SuperblockFault::kNone || second.serial > first.serial)
                           ? 1
                           : 0;
  volume.superblock = volume.whole_label == 1 ? second : first;
  const std::uint64_t region = volume.superblock.region_bytes;
  const bool whole = region >= kBlockBytes * 2 && region % kBlockBytes == 0;
  const bool fits = whole && usable(options.size_bytes) / region >= kLeastRegions;
  // After a larger disk.size, larger chunks should fit: the file starts empty with larger regions.
  // The loss is small, because regions grow only with the size.
  const bool small = region < chosen_region_bytes(options);
  if (fits && !small) return true;
  volume.notes.push_back({kStartsEmpty, "starts empty: its file has regions of " +
                                            base::mib(region) + ", too " +
                                            (fits ? "small" : "large") + " for this size"});
  return false;
}

Status write_superblock(Device& device, std::span<std::byte> scratch, Volume& volume) {
  const std::span<std::byte> head = scratch.first(kHeadBytes);
  encode_superblock(volume.superblock, head.first(kSuperblockBytes));
  encode_superblock(volume.superblock, head.last(kSuperblockBytes));
  // One write for both copies: the file is new, and has nothing to lose. DropLog writes one after
  // the other.
  Status status = device.run(request(IoRequest::Kind::kWrite, volume, 0, head));
  if (status.ok()) status = device.run(request(IoRequest::Kind::kSync, volume, 0, {}));
  return status.ok() ? status : path_error(status, volume.file_path, "cannot be written");
}

}  // namespace

std::uint64_t most_slot_bytes(std::uint64_t region_bytes) {
  return region_bytes - std::min(region_bytes, kBesideSlotBytes);
}

Status too_large_for_a_region(const DiskOptions& options, std::uint64_t slot_bytes) {
  const std::uint64_t least = least_size(slot_bytes);
  const std::string what =
      "disk.size: a disk of " + base::mib(options.size_bytes) + " holds no chunk of " +
      base::mib(slot_bytes) +
      " (a chunk must fit into a region, a sixteenth of the disk and 256 MiB at most): ";
  if (least == 0) return {Code::kOutOfRange, what + "no size does, set chunk_tokens smaller"};
  return {Code::kOutOfRange,
          what + "set it to at least " + base::mib(least) + ", or set chunk_tokens smaller"};
}

Result<Volume> open_volume(Env& env, Device& device, const DiskOptions& options,
                           std::span<std::byte> scratch, std::uint64_t on_device) {
  Volume volume;
  if (Status status = check_size(options); !status.ok()) return status;
  const Result<std::string> folder = open_directory(env, options, on_device, volume);
  if (!folder.ok()) return folder.status();
  if (Status status = lock_file(env, options, *folder, volume); !status.ok()) return status;
  const Result<bool> known = read_superblock(device, options, scratch, volume);
  if (!known.ok()) return known.status();
  // A new volume number invalidates all structures in the file.
  if (!*known) volume.superblock = {env.random(), 1, chosen_region_bytes(options), {}, {}};
  volume.regions =
      static_cast<std::uint32_t>(usable(options.size_bytes) / volume.superblock.region_bytes);
  // The reservation comes before the superblock: a start without enough space leaves the old
  // superblock and the old chunks.
  if (const Status reserved = env.reserve(volume.file, volume.bytes()); !reserved.ok())
    return Status(reserved.code(), "disk.size: " + base::mib(options.size_bytes) +
                                       " cannot be reserved in " + *folder + " (" +
                                       reserved.text() + ")");
  if (!*known)
    if (Status status = write_superblock(device, scratch, volume); !status.ok()) return status;
  return volume;
}

}  // namespace larder::disk
