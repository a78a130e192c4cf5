// vLLM's flags in a list of words: which there are, and where another may be put.
//
// Flags are compared as vLLM compares them: `--kv_transfer_config` is `--kv-transfer-config`, and
// `=` may stand before the value. Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "shim/base/status.h"

namespace larder::webhook {

// Why a command line cannot have its connector, and what to do.
inline Status unsupported(std::string why) {
  return {Code::kUnsupported, std::move(why)};
}

inline constexpr std::string_view kConnectorFlag = "--kv-transfer-config";

// A word of the command line: nothing where only a shell's expansion will tell it. `many`: it may
// become several words.
struct FlagWord {
  std::optional<std::string> text;
  bool many = false;
  std::string begins = "";  // of a word without text: its characters before the first expansion
};

// "--kv_transfer_config=X" -> "--kv-transfer-config"; "" for what is no flag.
std::string flag_name(std::string_view word);

struct ConnectorFlag {
  enum class Form { kAbsent, kNextWord, kSameWord, kUnreadable } form = Form::kAbsent;
  std::size_t word = 0;  // kNextWord, kSameWord: where the value stands
  std::string value;
  std::string why;  // kUnreadable
};
ConnectorFlag find_connector_flag(std::span<const FlagWord> words);

// Why vLLM with these flags takes no connector, and what to do; "" where it does.
std::string refused_by_flags(std::span<const FlagWord> words);

// Whether a word without text may become a flag, and not only the model or the value of an option.
// `takes_model`: the words begin behind `vllm serve`.
bool may_be_flags(std::span<const FlagWord> words, std::size_t at, bool takes_model);

// Before which word a flag goes, so that a flag in a word that is not known yet comes later and
// wins; words.size(): at the end. `words` begin after `vllm serve`: what may be the model stays
// first, since vLLM asks for it there.
std::size_t place_for_flag(std::span<const FlagWord> words);

}  // namespace larder::webhook
