// nth_engine SOCKET [below | must]: an engine over the C ABI, as another program uses it: attaches,
// stores, looks up and loads, until store and load have succeeded or 3 s have passed. `below`:
// first fetches and loads the chunks that an earlier engine left on larderd's disk, and drops them.
// The program itself does not allocate, so all failures are the shim's. Exit status: 0, success; 4,
// not in time; 3, wrong bytes after a successful load; 5 (must), no chunk came from the disk.
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>

#include "shim/capi/larder.h"

namespace {

constexpr std::uint64_t kPieceBytes = 4096;
constexpr std::uint32_t kLayers = 2, kChunks = 4;

constexpr std::size_t kBytes = kLayers * kChunks * kPieceBytes;
unsigned char memory[kBytes];  // a layer after the other

unsigned char expected(std::size_t at) {
  return static_cast<unsigned char>(at / 7 + at / kPieceBytes * 31);
}
bool right() {
  for (std::size_t i = 0; i < kBytes; ++i)
    if (memory[i] != expected(i)) return false;
  return true;
}
void fill() {
  for (std::size_t i = 0; i < kBytes; ++i) memory[i] = expected(i);
}

enum class Loaded { kNo, kRight, kWrong };

Loaded load(larder_client* client, const larder_transfer& transfer) {
  std::memset(memory, 0, sizeof(memory));
  std::uint64_t ticket = 0;
  if (larder_load(client, &transfer, &ticket) != LARDER_OK) return Loaded::kNo;
  larder_completion done{};
  while (larder_poll(client, &done, 1, 100) == 0) {
  }
  if (done.status != LARDER_OK) return Loaded::kNo;
  return right() ? Loaded::kRight : Loaded::kWrong;
}

// kNo also for a chunk in memory.
Loaded bring_up(larder_client* client, const larder_transfer& transfer) {
  std::uint64_t ticket = 0;
  if (larder_fetch(client, &transfer.hashes, 300, &ticket) != LARDER_OK) return Loaded::kNo;
  larder_fetch_result fetched{};
  fetched.struct_bytes = sizeof(fetched);
  larder_fetch_poll(client, ticket, 500, &fetched);
  const bool whole = fetched.running == 0 && fetched.chunks == kChunks;
  const Loaded loaded = whole ? load(client, transfer) : Loaded::kNo;
  larder_fetch_end(client, ticket);
  return loaded == Loaded::kRight && fetched.bytes == 0 ? Loaded::kNo : loaded;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  const bool below = argc == 3, must = below && std::strcmp(argv[2], "must") == 0;
  unsigned char hashes[kChunks * 16];
  larder_pages pages[kLayers];
  std::uint32_t numbers[kChunks];
  for (std::uint32_t i = 0; i < kLayers; ++i)
    pages[i] = {memory + i * kChunks * kPieceBytes, kPieceBytes, kPieceBytes, kChunks};
  for (std::size_t i = 0; i < sizeof(hashes); ++i)
    hashes[i] = static_cast<unsigned char>(i * 37 + 5);
  for (std::uint32_t i = 0; i < kChunks; ++i) numbers[i] = i;
  larder_transfer transfer{};
  transfer.struct_bytes = sizeof(transfer);
  transfer.hashes = {hashes, 16, kChunks, 0, 0};
  transfer.pages = numbers;
  transfer.page_count = kChunks;

  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  const auto in_time = [&] { return std::chrono::steady_clock::now() < end; };
  larder_client* client = nullptr;
  const larder_options options{sizeof(larder_options), 1, argv[1], "nth"};
  while (larder_open(&options, &client) != LARDER_OK)
    if (!in_time()) return 4;
  const larder_group group{kPieceBytes, kLayers, 1};
  const larder_namespace ns{
      sizeof(larder_namespace), 1, "engine: nth\n", "nth", &group, 1, 256, 0, 0};
  while (larder_set_namespace(client, &ns) != LARDER_OK && in_time()) {
  }
  while (larder_register_pages(client, 0, pages, kLayers) != LARDER_OK && in_time()) {
  }
  larder_wait_attached(client, 200);
  int status = 4;
  if (below) {
    const Loaded brought = bring_up(client, transfer);
    if (brought == Loaded::kWrong) status = 3;
    if (brought == Loaded::kNo && must) status = 5;
    larder_drop_namespace(client);
  }
  while (status == 4 && in_time()) {
    larder_wait_attached(client, 200);
    fill();
    larder_store_result stored{};
    stored.struct_bytes = sizeof(stored);
    larder_store_begin(client, &transfer);
    larder_store_finish(client, 200, &stored);
    std::uint64_t hold = 0;
    std::size_t held = 0;
    larder_hold(client, &transfer.hashes, &hold, &held);
    const Loaded loaded = load(client, transfer);
    if (loaded != Loaded::kNo) status = loaded == Loaded::kRight ? 0 : 3;
    if (hold != 0) larder_release(client, hold);
    if (status == 4) ::usleep(20'000);
  }
  larder_close(client);
  return status;
}
