#include "sidecar/ctl/payload.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "sidecar/base/file_limit.h"

namespace larder::ctl {
namespace {

namespace fs = std::filesystem;

// The bound catches a wrong --from, such as "/".
constexpr std::size_t kMostEntries = 10'000;  // the payload has about 40
constexpr mode_t kFolderMode = 0755, kFileMode = 0644;

Status failed(const std::error_code& error, const fs::path& path) {
  return base::file_failure(error.value(), path.string());
}

// Copies one file, with permissions independent of the umask.
Status install_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::copy_file(from, to, error)) return failed(error, to);
  // The engine runs as another user and must read the files, whatever the umask of the init
  // container is.
  if (::chmod(to.c_str(), kFileMode) != 0) return Status::from_errno(errno, to.string());
  return {};
}

Status make_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), kFolderMode) != 0 || ::chmod(path.c_str(), kFolderMode) != 0)
    return Status::from_errno(errno, path.string());
  return {};
}

// Copies the files and folders below `from`. Refuses links and devices, which a payload never has.
Status copy_tree(const fs::path& from, const fs::path& to) {
  if (Status made = make_folder(to); !made.ok()) return made;
  std::error_code error;
  std::size_t entries = 0;
  for (fs::recursive_directory_iterator next(from, error), end; !error && next != end;
       next.increment(error)) {
    const fs::path target = to / next->path().lexically_relative(from);
    // symlink_status() and not status(): a link in the payload could lead out of the folder.
    const fs::file_type type = next->symlink_status(error).type();
    if (error) return failed(error, next->path());
    if (type != fs::file_type::directory && type != fs::file_type::regular)
      return {Code::kInvalidArgument, next->path().string() + " is neither a file nor a folder"};
    if (++entries > kMostEntries)
      return {Code::kOutOfRange, from.string() + " holds too many files for a payload"};
    Status copied =
        type == fs::file_type::directory ? make_folder(target) : install_file(next->path(), target);
    if (!copied.ok()) return copied;
  }
  return error ? failed(error, from) : Status();
}

// Exchanges `entry` and `target` in one step. An earlier target is at `entry` afterwards.
Status put_in_place(const fs::path& entry, const fs::path& target) {
  // RENAME_EXCHANGE: an engine that starts meanwhile sees the old entry or the new one, and never a
  // half-written one.
  if (::renameat2(AT_FDCWD, entry.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
    return {};
  // ENOENT: the first installation has no earlier target, so a plain rename suffices.
  if (errno != ENOENT) return Status::from_errno(errno, target.string());
  if (::rename(entry.c_str(), target.c_str()) != 0)
    return Status::from_errno(errno, target.string());
  return {};
}

Status put_all_in_place(const fs::path& staged, const fs::path& to) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator next(staged, error), end; !error && next != end;
       next.increment(error))
    entries.push_back(next->path());
  if (error) return failed(error, staged);
  // An image without a payload would otherwise succeed, and the engine would fail later.
  if (entries.empty()) return {Code::kNotFound, "the payload is empty"};
  for (const fs::path& entry : entries)
    if (Status put = put_in_place(entry, to / entry.filename()); !put.ok()) return put;
  return {};
}

}  // namespace

Status install_payload(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::is_directory(from, error))
    return Status::from_errno(error ? error.value() : ENOTDIR, from);
  if (!fs::is_directory(to, error)) return Status::from_errno(error ? error.value() : ENOTDIR, to);
  // Inside `to`, because an exchange needs one file system. The process id keeps the folder apart
  // from the leftovers of a killed init container.
  const fs::path staged = fs::path(to) / (".larder-payload." + std::to_string(::getpid()));
  fs::remove_all(staged, error);
  Status done = copy_tree(from, staged);
  if (done.ok()) done = put_all_in_place(staged, to);
  // Also after a failure. After a success the folder holds the replaced payload.
  fs::remove_all(staged, error);
  return done;
}

Result<std::string> install_payload_command(const Arguments& arguments) {
  const std::string from = arguments.from.value_or(kImagePayload), &to = arguments.words[1];
  if (Status done = install_payload(from, to); !done.ok()) return done;
  return "installed " + from + " in " + to + "\n";
}

}  // namespace larder::ctl
