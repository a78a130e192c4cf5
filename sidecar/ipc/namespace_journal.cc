#include "sidecar/ipc/namespace_journal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>

#include "sidecar/base/sizes.h"

namespace larder::ipc {
namespace {

struct RecordHead {
  std::uint32_t bytes;
  std::uint32_t reserved;
  std::uint64_t checksum;
};
static_assert(sizeof(RecordHead) == 16);

Status malformed(const std::string& why) {
  return {Code::kInvalidArgument, "OPEN_NAMESPACE: " + why};
}

// The whole file, or nothing.
std::vector<std::byte> bytes_of(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat file {};
  if (!fd.valid() || ::fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode)) return {};
  if (static_cast<std::uint64_t>(file.st_size) > NamespaceJournal::kMaxBytes) return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.st_size));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count = ::pread(fd.get(), bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
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
    return malformed("group_count " + std::to_string(open.group_count) + " is over the limit or the packet");
  std::string fingerprint;
  if (!decoder.read_text(open.text_bytes, protocol::kMaxFingerprintBytes, fingerprint))
    return malformed("text_bytes " + std::to_string(open.text_bytes) + " is over the limit or the packet");
  spec.fingerprint = std::make_shared<const std::string>(std::move(fingerprint));
  protocol::NamespaceShards shards{};
  if (decoder.read(shards)) spec.layout_shard = shards.layout_shard;  // since 1.1
  return spec;
}

Result<NamespaceJournal> NamespaceJournal::create(const std::string& path) {
  NamespaceJournal journal;
  journal.fd_ = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!journal.fd_.valid()) return Status::from_errno(errno, "create " + path);
  journal.path_ = path;
  return journal;
}

Status NamespaceJournal::add(std::span<const std::byte> packet, const store::NamespaceSpec& spec) {
  const std::pair<std::string, std::uint32_t> name{spec.id.to_hex(), spec.layout_shard};
  if (known_.contains(name)) return {};
  const RecordHead head{static_cast<std::uint32_t>(packet.size()), 0, XXH3_64bits(packet.data(), packet.size())};
  std::vector<std::byte> record(sizeof(head) + packet.size());
  std::memcpy(record.data(), &head, sizeof(head));
  std::memcpy(record.data() + sizeof(head), packet.data(), packet.size());
  if (bytes_ + record.size() > kMaxBytes)
    return {Code::kResourceExhausted, path_ + " has " + base::mib(bytes_) + ", its greatest size"};
  const ssize_t written = ::write(fd_.get(), record.data(), record.size());
  if (written != static_cast<ssize_t>(record.size())) {
    const int error = written < 0 ? errno : ENOSPC;
    // What was written in part would hide what comes behind it.
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) bytes_ = kMaxBytes;
    return Status::from_errno(error, "write " + path_);
  }
  bytes_ += record.size();
  known_.insert(name);
  return {};
}

std::vector<NamespaceJournal::Record> NamespaceJournal::read(const std::string& path) {
  const std::vector<std::byte> bytes = bytes_of(path);
  std::vector<Record> records;
  for (std::span<const std::byte> rest(bytes); rest.size() >= sizeof(RecordHead);) {
    RecordHead head{};
    std::memcpy(&head, rest.data(), sizeof(head));
    rest = rest.subspan(sizeof(head));
    if (head.bytes > rest.size() || head.bytes > protocol::kMaxPacketBytes) break;
    const std::span<const std::byte> packet = rest.first(head.bytes);
    rest = rest.subspan(head.bytes);
    if (XXH3_64bits(packet.data(), packet.size()) != head.checksum) break;
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet);
    if (!decoder.ok() || decoder->type() != protocol::MessageType::kOpenNamespace) break;
    Result<store::NamespaceSpec> spec = read_open_namespace(*decoder);
    if (!spec.ok()) break;
    records.push_back({{packet.begin(), packet.end()}, std::move(*spec)});
  }
  return records;
}

}  // namespace larder::ipc
