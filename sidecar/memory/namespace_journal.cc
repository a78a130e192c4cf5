#include "sidecar/memory/namespace_journal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "shim/base/test_point.h"
#include "sidecar/base/file_write.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/base/sizes.h"

namespace larder::memory {
namespace {

// On disk: head, then the OPEN_NAMESPACE packet as received. `named` is handle + 1, or 0 before
// protocol 1.6.
struct RecordHead {
  std::uint32_t bytes;
  std::uint32_t named;
  std::uint64_t checksum;
};
static_assert(sizeof(RecordHead) == 16);

Status malformed(const std::string& why) {
  return {Code::kInvalidArgument, "OPEN_NAMESPACE: " + why};
}

// The name of the file during a rewrite of NAME.namespaces.EPOCH: NAME.fresh.EPOCH, which the next
// start removes. The index has left that name by then (fresh_index_path()).
std::string fresh_journal_path(const std::string& path) {
  constexpr std::string_view kKind = ".namespaces.";
  const std::size_t at = path.rfind(kKind);
  return at == std::string::npos ? path + ".fresh"
                                 : path.substr(0, at) + ".fresh." + path.substr(at + kKind.size());
}

// The content of the file; empty if the file is missing or too large.
std::vector<std::byte> bytes_of(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat file {};
  if (!fd.valid() || ::fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode)) return {};
  // larderd never writes a larger file. The start stays cold for these namespaces and needs no
  // memory for the bytes.
  if (static_cast<std::uint64_t>(file.st_size) > NamespaceJournal::kMaxBytes) return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.st_size));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count =
        ::pread(fd.get(), bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
    if (count <= 0) break;
    got += static_cast<std::size_t>(count);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace

Result<store::NamespaceSpec> read_open_namespace(protocol::Decoder& decoder) {
  protocol::OpenNamespace open{};
  if (!decoder.read(open)) return malformed("shorter than its fixed part");
  store::NamespaceSpec spec;
  spec.id = open.id;
  spec.shard_count = open.shard_count;
  spec.chunk_tokens = open.chunk_tokens;
  spec.model = protocol::short_text(open.model);
  if (!decoder.read_all(open.group_count, protocol::kMaxGroups, spec.groups))
    return malformed("group_count " + std::to_string(open.group_count) +
                     " is over the limit or the packet");
  std::string fingerprint;
  if (!decoder.read_text(open.text_bytes, protocol::kMaxFingerprintBytes, fingerprint))
    return malformed("text_bytes " + std::to_string(open.text_bytes) +
                     " is over the limit or the packet");
  spec.fingerprint = std::make_shared<const std::string>(std::move(fingerprint));
  protocol::NamespaceShards shards{};
  // An engine with protocol 1.0 sends a packet without this part.
  if (!decoder.read(shards)) return spec;  // before 1.1
  spec.layout_shard = shards.layout_shard;
  if (!decoder.read_all(shards.part_words, protocol::kMaxPartWords, spec.parts))
    return malformed("part_words " + std::to_string(shards.part_words) +
                     " is over the limit or the packet");
  return spec;
}

Result<NamespaceJournal> NamespaceJournal::create(const std::string& path) {
  NamespaceJournal journal;
  journal.fd_ = Fd(
      // O_APPEND: after a failed write and ftruncate() the next record starts at the right place.
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!journal.fd_.valid()) return Status::from_errno(errno, "create " + path);
  journal.path_ = path;
  return journal;
}

Status NamespaceJournal::add(std::span<const std::byte> packet, std::uint32_t handle,
                             std::uint32_t layout_shard) {
  // Each shard of a model opens the namespace with its own layout. All sessions of one shard need
  // one record.
  if (known_.contains({handle, layout_shard})) return {};
  const RecordHead head{static_cast<std::uint32_t>(packet.size()), handle + 1,
                        XXH3_64bits(packet.data(), packet.size())};
  std::vector<std::byte> record(sizeof(head) + packet.size());
  std::memcpy(record.data(), &head, sizeof(head));
  std::memcpy(record.data() + sizeof(head), packet.data(), packet.size());
  if (bytes_ + record.size() > kMaxBytes)
    return {Code::kResourceExhausted, path_ + " has " + base::mib(bytes_) + ", its greatest size"};
  // No fsync(): the file is on tmpfs, and must survive a death of larderd but not of the machine.
  if (Status written = base::write_all(fd_.get(), record, "write " + path_); !written.ok()) {
    // A partial record would hide the records behind it.
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) bytes_ = kMaxBytes;
    return written;
  }
  known_[{handle, layout_shard}] = {bytes_, record.size()};
  bytes_ += record.size();
  known_bytes_ += record.size();
  return {};
}

void NamespaceJournal::keep(const std::function<bool(std::uint32_t)>& is_open) {
  std::erase_if(known_, [&](const auto& known) {
    if (is_open(known.first.first)) return false;
    known_bytes_ -= known.second.bytes;
    return true;
  });
  // Rewrites only when forgotten records outweigh the rest, so the cost of a rewrite is spread over
  // many namespaces.
  if (bytes_ - known_bytes_ <= std::max(kMostForgotten, known_bytes_)) return;
  // Without room for the rewrite the file stays as it is; add() keeps the bound.
  if (Status status = write_anew(); !status.ok())
    base::log_refusal("namespaces", status.text(), base::LogLevel::kWarning,
                      "the namespaces are not written anew: " + status.text());
}

// A death at any moment leaves the old file or the new file.
Status NamespaceJournal::write_anew() {
  const std::vector<std::byte> before = bytes_of(path_);
  const std::string path = fresh_journal_path(path_);
  // A leftover of an earlier rewrite, since create() refuses an existing file.
  ::unlink(path.c_str());
  Result<NamespaceJournal> fresh = create(path);
  if (!fresh.ok()) return fresh.status();
  std::vector<std::byte> records;
  for (const auto& [name, place] : known_) {
    if (place.offset + place.bytes > before.size())
      return {Code::kDataLoss, path_ + " is shorter than the written records"};
    fresh->known_[name] = {records.size(), place.bytes};
    const auto first = before.begin() + static_cast<std::ptrdiff_t>(place.offset);
    records.insert(records.end(), first, first + static_cast<std::ptrdiff_t>(place.bytes));
  }
  Status replaced = base::write_all(fresh->fd_.get(), records, "write " + path);
  LARDER_POINT(journal_written_anew);
  // rename() is atomic, so no reader finds a half-written file.
  if (replaced.ok() && ::rename(path.c_str(), path_.c_str()) != 0)
    replaced = Status::from_errno(errno, "rename " + path);
  if (!replaced.ok()) {
    ::unlink(path.c_str());
    return replaced;
  }
  LARDER_POINT(journal_replaced);
  fresh->path_ = path_;
  fresh->bytes_ = fresh->known_bytes_ = records.size();
  *this = *std::move(fresh);
  return {};
}

std::vector<NamespaceJournal::Record> NamespaceJournal::read(const std::string& path) {
  const std::vector<std::byte> bytes = bytes_of(path);
  std::vector<Record> records;
  for (std::span<const std::byte> rest(bytes); rest.size() >= sizeof(RecordHead);) {
    RecordHead head{};
    std::memcpy(&head, rest.data(), sizeof(head));
    rest = rest.subspan(sizeof(head));
    // A torn record at the end (a kill in the middle of a write) fails here or at the checksum. The
    // records before stay valid.
    if (head.bytes > rest.size() || head.bytes > protocol::kMaxPacketBytes) break;
    const std::span<const std::byte> packet = rest.first(head.bytes);
    rest = rest.subspan(head.bytes);
    if (XXH3_64bits(packet.data(), packet.size()) != head.checksum) break;
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet);
    if (!decoder.ok() || decoder->type() != protocol::MessageType::kOpenNamespace) break;
    Result<store::NamespaceSpec> spec = read_open_namespace(*decoder);
    if (!spec.ok()) break;
    const std::optional<std::uint32_t> handle =
        head.named != 0 ? std::optional(head.named - 1) : std::nullopt;
    records.push_back({{packet.begin(), packet.end()}, std::move(*spec), handle});
  }
  return records;
}

}  // namespace larder::memory
