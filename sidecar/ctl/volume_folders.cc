#include "sidecar/ctl/volume_folders.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "sidecar/config/values.h"

namespace larder::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostId =
    (std::uint64_t{1} << 32) - 2;  // the highest id means "unchanged" to lchown()

Status give(const fs::path& path, uid_t user, gid_t group) {
  // ENOENT: a file that another pod removed meanwhile. lchown() does not follow links out of the
  // volume.
  if (::lchown(path.c_str(), user, group) == 0 || errno == ENOENT) return {};
  return Status::from_errno(errno, path.string());
}

// Changes the folder itself last: the right owner of a folder then means that its content is done.
Status own_folder(const fs::path& folder, uid_t user, gid_t group) {
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return Status::from_errno(errno, folder.string());
  if (!S_ISDIR(found.st_mode)) return Status::from_errno(ENOTDIR, folder.string());
  // A start of a pod costs one lstat(), however many files the folder has.
  if (found.st_uid == user && found.st_gid == group) return {};
  std::error_code error;
  for (fs::recursive_directory_iterator next(folder, error), end; !error && next != end;
       next.increment(error))
    if (Status given = give(next->path(), user, group); !given.ok()) return given;
  if (error) return Status::from_errno(error.value(), folder.string());
  return give(folder, user, group);
}

// Numbers only: the image of an init container has no user database of the node.
bool parse_owner(std::string_view text, std::uint64_t& user, std::uint64_t& group) {
  const std::size_t colon = text.find(':');
  return colon != std::string_view::npos && config::parse_number(text.substr(0, colon), user) &&
         config::parse_number(text.substr(colon + 1), group) && user <= kMostId && group <= kMostId;
}

}  // namespace

Status init_volumes(uid_t user, gid_t group, std::span<const std::string> folders) {
  // The first failure ends the command. The pod then restarts the init container, and finished
  // folders are skipped.
  for (const std::string& folder : folders)
    if (Status owned = own_folder(folder, user, group); !owned.ok()) return owned;
  return {};
}

Result<std::string> init_volumes_command(const Arguments& arguments) {
  std::uint64_t user = 0, group = 0;
  if (!parse_owner(arguments.words[1], user, group))
    return Status(Code::kInvalidArgument,
                  "'" + arguments.words[1] + "' is no owner: write UID:GID, e.g. 65532:65532");
  const Status owned = init_volumes(static_cast<uid_t>(user), static_cast<gid_t>(group),
                                    std::span(arguments.words).subspan(2));
  if (!owned.ok()) return owned;
  return std::string();
}

}  // namespace larder::ctl
