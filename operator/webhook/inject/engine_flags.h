// Flags of vLLM in a list of words, and the place for another flag.
//
// Compares flags like vLLM: `--kv_transfer_config` is `--kv-transfer-config`, and `=` may precede
// the value. Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "shim/base/status.h"

namespace larder::webhook {

// The error for a command line that cannot have the connector, with the remedy.
inline Status unsupported(std::string why) {
  return {Code::kUnsupported, std::move(why)};
}

inline constexpr std::string_view kConnectorFlag = "--kv-transfer-config";

// A word of the command line; without text if only a shell's expansion decides. `many`: the word
// may become several words.
struct FlagWord {
  std::optional<std::string> text;
  bool many = false;
  std::string begins = "";  // for a word without text: the characters before the first expansion
};

// "--kv_transfer_config=X" -> "--kv-transfer-config"; "" for other words.
std::string flag_name(std::string_view word);

struct ConnectorFlag {
  enum class Form { kAbsent, kNextWord, kSameWord, kUnreadable } form = Form::kAbsent;
  std::size_t word = 0;  // kNextWord, kSameWord: index of the word with the value
  std::string value;
  std::string why;  // kUnreadable
};
ConnectorFlag find_connector_flag(std::span<const FlagWord> words);

// Why vLLM takes no connector with these flags, and the remedy; "": vLLM takes one. A first word
// that is no flag counts as the model.
std::string refused_by_flags(std::span<const FlagWord> words);

// Whether a word without text may become a flag, and not only the model or the value of an option.
// `takes_model`: the words follow `vllm serve`.
bool may_be_flags(std::span<const FlagWord> words, std::size_t at, bool takes_model);

// The index of the word before which a flag goes; words.size(): at the end. vLLM uses the last of
// equal flags. The flag goes before the first word that an expansion decides, so that a connector
// in that word wins. With `takes_model` a first word that may be the model stays first, since vLLM
// expects the model there.
std::size_t place_for_flag(std::span<const FlagWord> words, bool takes_model);

// Whether the words name the model elsewhere than in the first word: by --model, or in a later word
// that is no value of an option.
bool has_model_elsewhere(std::span<const FlagWord> words);

}  // namespace larder::webhook
