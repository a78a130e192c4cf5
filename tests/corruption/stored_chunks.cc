#include "tests/corruption/stored_chunks.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "shim/protocol/codec.h"

namespace larder::corruption {
namespace {

constexpr store::SessionNumber kSession = 1;

void must(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "corruption: %s\n", what);
  std::exit(2);
}

protocol::BlockHash hash_of(std::uint64_t chunk) {
  return {(chunk + 1) * 0xd6e8feb86659fd93ULL, (chunk + 1) * 0xa0761d6478bd642fULL};
}

// Byte `at` of a chunk, derived from key and generation alone.
std::byte expected(const protocol::BlockHash& hash, std::uint64_t generation, std::uint64_t at) {
  const std::uint64_t word =
      (hash.lo + generation * 0x2545f4914f6cdd1dULL + at / 8 + 1) * 0x9e3779b97f4a7c15ULL;
  return static_cast<std::byte>(word >> (8 * (at % 8)));
}

Mapping map_memfd(const char* name, std::size_t bytes, Fd& fd) {
  fd = Fd(::memfd_create(name, MFD_CLOEXEC));
  must(fd.valid() && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0, "no shared memory");
  Result<Mapping> mapping = Mapping::map_shared(fd, bytes, PROT_READ | PROT_WRITE, name);
  must(mapping.ok(), "no shared memory");
  return std::move(*mapping);
}

}  // namespace

StoredChunks::StoredChunks(const Shape& made)
    : group_{made.piece_bytes, made.layers, made.blocks_per_chunk} {
  store::IndexShape shape{};
  shape.entry_count = 2 * kChunks;  // more than needed, so no chunk is evicted
  shape.bucket_count = store::IndexShape::buckets_for(shape.entry_count);
  shape.arena_bytes = 2 * kChunks * group_.slot_bytes();
  shape.epoch = 1;
  shape.first_generation = 1'000'000;
  arena_ = map_memfd("arena", shape.arena_bytes, arena_fd_);
  index_ = map_memfd("index", shape.bytes(), index_fd_);
  session_ = map_memfd("session", sizeof(protocol::SessionRegion), session_fd_);
  store_ = std::make_unique<store::Store>(shape, index_.data(), arena_.data(), stats_);
  store_->set_touched_bytes(shape.arena_bytes);
  store_->sessions().add(kSession,
                         *reinterpret_cast<const protocol::SessionRegion*>(session_.data()));

  const std::string fingerprint = "corruption: " + std::to_string(made.piece_bytes) + "\n";
  store::NamespaceSpec spec;
  spec.id = protocol::namespace_id(fingerprint);
  spec.fingerprint = std::make_shared<const std::string>(fingerprint);
  spec.groups = {{group_.piece_bytes, static_cast<std::uint32_t>(group_.pieces()), 0}};
  spec.shard_count = 1;
  spec.chunk_tokens = 256;
  std::string difference;
  const Result<std::uint32_t> handle = store_->open_namespace(spec, &difference);
  must(handle.ok(), "the namespace was refused");

  spec_.chunk_tokens = spec.chunk_tokens;
  spec_.shard_count = 1;
  spec_.groups = {group_};
  groups_.emplace_back();
  for (std::uint32_t layer = 0; layer < group_.layers; ++layer) {
    const std::uint64_t count = static_cast<std::uint64_t>(kAtOnce) * group_.blocks_per_chunk;
    pages_.emplace_back(count * group_.piece_bytes);
    groups_[0].push_back({pages_.back().data(), group_.piece_bytes, group_.piece_bytes, count});
  }
  attach(shape);
  attachment_->set_namespace_handle(0, *handle);
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    const protocol::BlockHash hash = hash_of(chunk);
    protocol::Grant grant{};
    store_->reserve(kSession, {{}, *handle, 0, 0}, std::span(&hash, 1), std::span(&grant, 1));
    must(grant.status == 0, "a chunk was refused");
    fill(0, hash, grant.generation);
    const std::span<std::byte> slot(arena_.data() + grant.offset_bytes, group_.slot_bytes());
    const std::uint64_t root =
        copy::host_copy_engine().store({pieces(0), group_.piece_bytes}, slot).value();
    store_->commit(kSession, {grant.slot, 0, grant.generation, root});
    const auto view = attachment_->index().find(attachment_->key(0, hash, 0, 0));
    must(view.has_value(), "a chunk was not committed");
    views_.push_back(*view);
  }
}

StoredChunks::~StoredChunks() {
  pool_->close();
}

void StoredChunks::attach(const store::IndexShape& shape) {
  int sockets[2];
  must(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0,
       "no socket");
  sidecar_end_ = Fd(sockets[1]);
  protocol::Welcome welcome{};
  welcome.epoch = shape.epoch;
  welcome.session_number = kSession;
  welcome.arena_bytes = shape.arena_bytes;
  welcome.index_bytes = shape.bytes();
  welcome.session_bytes = sizeof(protocol::SessionRegion);
  std::vector<Fd> fds;
  for (const Fd* fd : {&arena_fd_, &index_fd_, &session_fd_}) fds.emplace_back(::dup(fd->get()));
  fds.emplace_back(::memfd_create("lock", MFD_CLOEXEC));
  const auto wake = std::make_shared<const Fd>(::dup(sockets[1]));  // the wakes are not read
  Result<std::shared_ptr<client::Attachment>> attachment =
      client::Attachment::make(welcome, std::move(fds), Fd(sockets[0]), wake);
  must(attachment.ok(), "the shim could not attach");
  attachment_ = *attachment;
  pool_ = std::make_unique<client::CopyPool>(2);
  loads_ = std::make_unique<client::Loads>(*pool_, copy::host_copy_engine(), spec_, groups_);
}

std::vector<std::byte*> StoredChunks::pieces(std::uint32_t place) {
  std::vector<std::byte*> result;
  for (std::vector<std::byte>& layer : pages_)
    for (std::uint32_t block = 0; block < group_.blocks_per_chunk; ++block)
      result.push_back(layer.data() +
                       (place * group_.blocks_per_chunk + block) * group_.piece_bytes);
  return result;
}

void StoredChunks::fill(std::uint32_t place, const protocol::BlockHash& hash,
                        std::uint64_t generation) {
  std::uint64_t at = 0;
  for (std::byte* piece : pieces(place))
    for (std::uint64_t i = 0; i < group_.piece_bytes; ++i)
      piece[i] = expected(hash, generation, at++);
}

bool StoredChunks::holds(std::uint32_t place, const protocol::BlockHash& hash,
                         std::uint64_t generation) const {
  std::uint64_t at = 0;
  for (const std::vector<std::byte>& layer : pages_)
    for (std::uint64_t i = 0; i < group_.blocks_per_chunk * group_.piece_bytes; ++i)
      if (layer[place * group_.blocks_per_chunk * group_.piece_bytes + i] !=
          expected(hash, generation, at++))
        return false;
  return true;
}

std::vector<std::byte> StoredChunks::earlier_slot(std::uint32_t chunk, std::uint64_t generation) {
  std::vector<std::byte> slot(group_.slot_bytes());
  fill(0, hash_of(chunk), generation);
  must(copy::host_copy_engine().store({pieces(0), group_.piece_bytes}, slot).ok(),
       "a chunk was not copied");
  return slot;
}

std::vector<StoredChunks::Outcome> StoredChunks::load_all(
    const std::vector<std::uint32_t>& chunks) {
  must(chunks.size() <= kAtOnce, "too many loads at once");
  for (std::vector<std::byte>& layer : pages_) std::memset(layer.data(), 0, layer.size());
  std::map<std::uint64_t, std::uint32_t> places;  // by ticket
  for (std::uint32_t place = 0; place < chunks.size(); ++place) {
    client::Transfer transfer;
    transfer.hashes.push_back(hash_of(chunks[place]));
    for (std::uint32_t block = 0; block < group_.blocks_per_chunk; ++block)
      transfer.pages.push_back(place * group_.blocks_per_chunk + block);
    const Result<std::uint64_t> ticket = loads_->start(attachment_, std::move(transfer), 60'000);
    must(ticket.ok(), "a load was refused");
    places.emplace(*ticket, place);
  }
  std::vector<Outcome> outcomes(chunks.size(), Outcome::kMiss);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!places.empty()) {
    must(std::chrono::steady_clock::now() < deadline, "a load did not end");
    for (const client::Completion& done : loads_->poll(kAtOnce, std::chrono::milliseconds(100))) {
      const std::uint32_t place = places.at(done.ticket);
      places.erase(done.ticket);
      if (done.status != Code::kOk) continue;
      const std::uint32_t chunk = chunks[place];
      const bool right = holds(place, hash_of(chunk), views_[chunk].generation);
      outcomes[place] = right ? Outcome::kRight : Outcome::kWrong;
    }
  }
  return outcomes;
}

std::uint64_t StoredChunks::take_bad_reports() {
  std::uint64_t reports = 0;
  for (;;) {
    const Result<protocol::Packet> packet = protocol::receive_packet(sidecar_end_.get());
    if (!packet.ok()) return reports;
    const Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    must(decoder.ok() && decoder->type() == protocol::MessageType::kBad,
         "the shim sent something else than BAD");
    ++reports;
  }
}

std::span<std::byte> StoredChunks::entry(std::uint32_t chunk) {
  const auto* header = reinterpret_cast<const protocol::IndexHeader*>(index_.data());
  return {
      index_.data() + header->entries_offset + views_[chunk].slot * sizeof(protocol::IndexEntry),
      sizeof(protocol::IndexEntry)};
}

std::span<std::byte> StoredChunks::cell(std::uint32_t chunk) {
  const auto* header = reinterpret_cast<const protocol::IndexHeader*>(index_.data());
  const protocol::KeyPlace place = protocol::key_place(views_[chunk].key, header->bucket_count);
  const std::uint64_t wanted = protocol::pack_halves(views_[chunk].slot + 1, place.tag);
  for (const std::uint64_t bucket : place.bucket)
    for (std::uint32_t i = 0; i < protocol::kBucketCells; ++i) {
      std::byte* at =
          index_.data() + header->buckets_offset + bucket * sizeof(protocol::Bucket) + i * 8;
      if (reinterpret_cast<const protocol::AtomicU64*>(at)->load() == wanted) return {at, 8};
    }
  must(false, "no cell leads to a chunk");
  return {};
}

}  // namespace larder::corruption
