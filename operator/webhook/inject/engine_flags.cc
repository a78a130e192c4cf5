#include "operator/webhook/inject/engine_flags.h"

#include <algorithm>
#include <cctype>

#include "operator/webhook/inject/shell_text.h"
#include "operator/webhook/inject/value_options.h"

namespace larder::webhook {
namespace {

// argparse accepts every unambiguous prefix of a flag; `least`: bytes of the shortest one.
bool is_prefix_of(std::string_view flag, std::size_t least, std::string_view name) {
  return name.size() >= least && flag.starts_with(name);
}

bool is_connector_flag(std::string_view name) {
  return is_prefix_of(kConnectorFlag, 6, name);
}

// An option without "=" may take the next word as its value.
bool is_unread_option(const FlagWord& word) {
  return word.text && word.text->starts_with('-') && word.text->find('=') == std::string::npos;
}

bool takes_value(const std::string& option) {
  const std::string name = option.starts_with("--") ? flag_name(option) : option;
  return std::ranges::binary_search(kValueOptions, name) ||
         std::ranges::find(kServerOptions, name) != kServerOptions.end();
}

// A switch, which takes no value. The names of vLLM's other switches are not in a table: a word
// behind an option that is not known is not counted as the model.
bool is_switch(const std::string& option) {
  const std::string name = flag_name(option);
  if (name.empty()) return std::isdigit(static_cast<unsigned char>(option.back())) != 0;  // -O3
  return !takes_value(option) && (name.starts_with("--no-") || name.starts_with("--enable-") ||
                                  name.starts_with("--disable-") || name == "--enforce-eager" ||
                                  name == "--trust-remote-code");
}

// A flag whose name an expansion or braces decide: --$NAME, -$NAME, --kv-$(X)-config, --{a,b}.
bool has_open_name(const FlagWord& word) {
  const std::string begins = word.text.value_or(word.begins);
  const std::size_t equals = begins.find('=');
  const std::string name = begins.substr(0, equals);
  if (!word.text && name == "-") return true;
  if (!name.starts_with("--")) return false;
  if (!word.text && equals == std::string::npos) return true;
  return name.find("$(") != std::string::npos || name.find('{') != std::string::npos;
}

// Whether the word has a connector's flag inside, such as in braces: {--kv_transfer_config,X} and
// {-,}-kv-transfer-config.
bool has_flag_inside(const FlagWord& word) {
  std::string text = word.text.value_or(word.begins);
  std::ranges::replace(text, '_', '-');
  return text.find("--kv-t") != std::string::npos ||
         text.find("kv-transfer-c") != std::string::npos;
}

bool cached_blocks_off(std::span<const FlagWord> words) {
  return std::ranges::any_of(words, [](const FlagWord& word) {
    return flag_name(word.text.value_or("")) == "--no-enable-prefix-caching";
  });
}

// Whether the word is the model, and a Whisper.
bool is_whisper(std::span<const FlagWord> words, std::size_t at) {
  const std::string text = words[at].text.value_or(words[at].begins);
  const auto is_model = [](const std::string& name) {
    return name == "--model" || name == "--model-id";
  };
  if (at > 0 && !is_model(flag_name(text)) && !is_model(words[at - 1].text.value_or("")))
    return false;
  return lower(text).find("whisper") != std::string::npos;
}

}  // namespace

// argparse of vLLM takes underscores for dashes.
std::string flag_name(std::string_view word) {
  if (!word.starts_with("--") || word.size() < 3) return "";
  std::string name(word.substr(0, word.find('=')));
  std::ranges::replace(name, '_', '-');
  return name;
}

// Example: in `--port $PORT` the word is the value of an option, and not a flag. In
// `--enforce-eager $MORE` it may be flags. `--$NAME` is a flag, and `m$MORE` may be a model and
// flags.
bool may_be_flags(std::span<const FlagWord> words, std::size_t at, bool takes_model) {
  const FlagWord& word = words[at];
  if (word.text) return false;
  if (has_open_name(word)) return true;
  if (!word.begins.empty() && (word.begins[0] == '-' || !word.many)) return false;
  if (at == 0) return word.many || !takes_model;
  return !is_unread_option(words[at - 1]) || !takes_value(*words[at - 1].text);
}

// A later word is the model in `$X m`, `$X --port 1 m`, `$X --port=1 m` and `$X --enforce-eager m`,
// and is none in `$X --served-model-name a b`. One walk, since a hostile list may be long.
bool has_model_elsewhere(std::span<const FlagWord> words) {
  bool in_list = false;  // behind an option that takes several words
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string text = words[at].text.value_or(words[at].begins);
    const std::string name = flag_name(text);
    if (name == "--model") return true;
    if (text.starts_with('-')) {
      in_list = text.find('=') == std::string::npos &&
                std::ranges::find(kListOptions, name) != kListOptions.end();
    } else if (at > 0 && words[at].text && !text.empty()) {
      const FlagWord& before = words[at - 1];
      const bool is_value = is_unread_option(before) && before.text != "--";
      if (is_value ? is_switch(*before.text) : !in_list) return true;
    }
  }
  return false;
}

ConnectorFlag find_connector_flag(std::span<const FlagWord> words) {
  using Form = ConnectorFlag::Form;
  ConnectorFlag found;
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (has_open_name(words[at]))
      return {Form::kUnreadable, at, "",
              "the name of a flag comes from a variable or from braces, and may be "
              "--kv-transfer-config; write the flag out"};
    if (!words[at].text) {
      if (is_connector_flag(flag_name(words[at].begins)))
        return {
            Form::kUnreadable, at, "",
            "the value of --kv-transfer-config comes from a variable; write the value out as JSON"};
      continue;
    }
    const std::string name = flag_name(*words[at].text);
    if (name.find('.') != std::string::npos && is_connector_flag(name.substr(0, name.find('.'))))
      return {Form::kUnreadable, at, "",
              "--kv-transfer-config is written key by key; write one JSON value"};
    if (!is_connector_flag(name)) continue;
    if (found.form != Form::kAbsent)
      return {Form::kUnreadable, at, "",
              // vLLM takes the last of equal flags, so a changed first one would have no effect.
              "--kv-transfer-config is given twice, and vLLM takes the last one; leave one"};
    const std::size_t equals = words[at].text->find('=');
    if (equals != std::string::npos) {
      found = {Form::kSameWord, at, words[at].text->substr(equals + 1), ""};
    } else if (at + 1 < words.size() && words[at + 1].text) {
      found = {Form::kNextWord, at + 1, *words[at + 1].text, ""};
      ++at;
    } else {
      return {
          Form::kUnreadable, at, "",
          "the value of --kv-transfer-config comes from a variable; write the value out as JSON"};
    }
  }
  const bool inside = std::ranges::any_of(words, has_flag_inside);
  if (found.form == Form::kAbsent && inside)
    return {Form::kUnreadable, 0, "",
            "--kv-transfer-config is inside another word; write the flag as a word of its own"};
  return found;
}

// With these flags vLLM ignores or replaces the connector, and an injected flag would be lost or
// would lose the user's.
std::string refused_by_flags(std::span<const FlagWord> words) {
  const bool no_cached_blocks = cached_blocks_off(words);
  for (std::size_t at = 0; at < words.size(); ++at) {
    const FlagWord& word = words[at];
    const std::string text = word.text.value_or(word.begins), name = flag_name(text);
    if (name == "--config")
      return "--config names a file of flags, and Larder's connector would replace a connector in "
             "the file; write the file's flags into the command, or Larder's --kv-transfer-config "
             "into the file and set spec.engine.flags of the pool to false";
    if (is_prefix_of("--kv-offloading-size", 16, name))
      return "with --kv-offloading-size vLLM replaces any connector by its own; remove the flag";
    if (name == "--backend" && text == "--backend=huggingface")
      return "--backend=huggingface does not run vLLM; use --backend=vllm";
    if (is_prefix_of("--use-replayssm", 7, name))
      return "with --use-replayssm vLLM refuses to start with any connector; remove the flag";
    if (is_prefix_of("--prefix-match-unit", 10, name) && no_cached_blocks)
      return "with --prefix-match-unit and without prefix caching vLLM may refuse to start with a "
             "connector; remove one of the two flags";
    if (is_whisper(words, at))
      return "vLLM refuses to start an encoder-decoder model (Whisper) with any connector; remove "
             "the annotation larder.dev/pool";
  }
  return "";
}

// At the end, unless an expansion may bring flags: see engine_flags.h.
std::size_t place_for_flag(std::span<const FlagWord> words, bool takes_model) {
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at].text && *words[at].text == "--") return at;
    if (!words[at].many && !may_be_flags(words, at, true)) continue;
    if (at == 0) return takes_model ? 1 : 0;
    // The word may be the value of the option in front, `--port $PORT`; the two stay together.
    return is_unread_option(words[at - 1]) ? at - 1 : at;
  }
  return words.size();
}

}  // namespace larder::webhook
