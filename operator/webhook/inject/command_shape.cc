#include "operator/webhook/inject/command_shape.h"

#include <algorithm>
#include <array>

#include "operator/webhook/inject/command_head.h"
#include "operator/webhook/inject/engine_flags.h"

namespace larder::webhook {
namespace {

using api::Object;

// Flags that no other server has.
constexpr std::array<std::string_view, 7> kOwnFlags{
    "--max-model-len",         "--gpu-memory-utilization", "--max-num-seqs",      "--max-num-batched-tokens",
    "--enable-prefix-caching", "--enable-chunked-prefill", "--kv-transfer-config"};
constexpr std::string_view kHuggingFaceServer = "huggingfaceserver";  // KServe's image, and its module
constexpr std::array<std::string_view, 6> kNoEngines{"router", "gateway", "proxy", "exporter", "sidecar", "bench"};

// "registry:5000/kserve/huggingfaceserver:latest-gpu@sha256:..." -> "huggingfaceserver".
std::string_view image_name(std::string_view image) {
  image = image.substr(0, image.find('@'));
  const std::string_view name = program_name(image);
  return name.substr(0, name.find(':'));
}

}  // namespace

std::vector<std::optional<std::string>> argv_of(const Object& container) {
  std::vector<std::optional<std::string>> argv;
  for (const char* list : {"command", "args"}) {
    const Object& words = api::at(container, list);
    if (!words.is_array()) continue;
    for (const Object& word : words)
      argv.push_back(word.is_string() ? std::optional(word.get_ref<const std::string&>()) : std::nullopt);
  }
  return argv;
}

CommandShape shape_of(const Object& container) {
  using Kind = CommandShape::Kind;
  const auto argv = argv_of(container);
  if (argv.empty()) return {Kind::kUnseen, 0};
  const CommandHead head = head_of(argv);
  if (head.kind == CommandHead::Kind::kEngine) return {Kind::kArgv, head.index};
  if (head.kind == CommandHead::Kind::kShell) return {Kind::kScript, head.index};
  const Object& command = api::at(container, "command");
  const bool has_command = command.is_array() && !command.empty();
  return {has_command ? Kind::kForeign : Kind::kEntrypoint, 0};
}

bool is_huggingface_server(const Object& container) {
  const std::string image = api::text_at(container, "image");
  if (image_name(image).find(kHuggingFaceServer) != std::string_view::npos) return true;
  return std::ranges::any_of(argv_of(container), [](const auto& word) { return word == kHuggingFaceServer; });
}

bool looks_like_engine(const Object& container) {
  const std::string image = api::text_at(container, "image");
  const std::string_view name = image_name(image);
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (std::ranges::any_of(kNoEngines, has)) return false;
  if (has("vllm") || has(kHuggingFaceServer)) return true;
  const auto argv = argv_of(container);
  return std::ranges::any_of(
      argv, [](const auto& word) { return word && std::ranges::find(kOwnFlags, flag_name(*word)) != kOwnFlags.end(); });
}

}  // namespace larder::webhook
