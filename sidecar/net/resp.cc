#include "sidecar/net/resp.h"

#include <hiredis/hiredis.h>

#include <new>

namespace larder::net {
namespace {

std::string format(std::span<const std::string_view> words) {
  std::vector<const char*> starts;
  std::vector<std::size_t> sizes;
  for (const std::string_view word : words) {
    starts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* text = nullptr;
  const int bytes =
      redisFormatCommandArgv(&text, static_cast<int>(words.size()), starts.data(), sizes.data());
  // hiredis fails here only without memory.
  if (bytes < 0) throw std::bad_alloc();  // as a std::string would
  std::string command(text, static_cast<std::size_t>(bytes));
  redisFreeCommand(text);
  return command;
}

std::size_t word_bytes(std::string_view word) {
  return 1 + std::to_string(word.size()).size() + 2 + word.size() + 2;
}

// Recurses at most kMaxDepth deep, the limit of the scanner.
Reply take(const redisReply& from) {
  Reply reply;
  switch (from.type) {
    case REDIS_REPLY_STATUS: reply.kind = Reply::Kind::kStatus; break;
    case REDIS_REPLY_ERROR: reply.kind = Reply::Kind::kError; break;
    case REDIS_REPLY_INTEGER: reply.kind = Reply::Kind::kInteger; break;
    case REDIS_REPLY_STRING: reply.kind = Reply::Kind::kBulk; break;
    case REDIS_REPLY_ARRAY: reply.kind = Reply::Kind::kArray; break;
    default: return reply;
  }
  if (from.str != nullptr) reply.text.assign(from.str, from.len);
  reply.integer = from.integer;
  for (std::size_t i = 0; i < from.elements; ++i) reply.elements.push_back(take(*from.element[i]));
  return reply;
}

}  // namespace

std::string format_command(std::span<const std::string_view> words) {
  return format(words);
}

Around format_around(std::span<const std::string_view> before, std::size_t body_bytes,
                     std::span<const std::string_view> after) {
  std::vector<std::string_view> words(before.begin(), before.end());
  words.emplace_back("");  // the place of the body: "$0\r\n\r\n"
  words.insert(words.end(), after.begin(), after.end());
  const std::string whole = format(words);
  std::size_t after_bytes = 0;
  for (const std::string_view word : after) after_bytes += word_bytes(word);
  const std::size_t body_at = whole.size() - after_bytes - word_bytes("");
  return {whole.substr(0, body_at) + "$" + std::to_string(body_bytes) + "\r\n",
          "\r\n" + whole.substr(whole.size() - after_bytes)};
}

struct ReplyParser::Reader {
  redisReader* reader = redisReaderCreate();
  ~Reader() { redisReaderFree(reader); }
};

ReplyParser::ReplyParser() : reader_(std::make_unique<Reader>()) {}
ReplyParser::~ReplyParser() = default;

Result<Reply> ReplyParser::parse(std::span<const std::byte> whole) {
  void* parsed = nullptr;
  redisReader* reader = reader_->reader;
  const bool read = redisReaderFeed(reader, reinterpret_cast<const char*>(whole.data()),
                                    whole.size()) == REDIS_OK &&
                    redisReaderGetReply(reader, &parsed) == REDIS_OK && parsed != nullptr &&
                    // Bytes left over mean that scanner and hiredis disagree on the end of the
                    // reply.
                    reader->pos == reader->len;
  if (!read) {
    if (parsed != nullptr) freeReplyObject(parsed);
    reader_ = std::make_unique<Reader>();  // discards the rest that hiredis kept
    return Status(Code::kDataLoss, "a reply that cannot be parsed");
  }
  Reply reply = take(*static_cast<const redisReply*>(parsed));
  freeReplyObject(parsed);
  return reply;
}

}  // namespace larder::net
