#include "operator/webhook/inject/engine_flags.h"

#include <algorithm>
#include <array>

namespace larder::webhook {
namespace {

// argparse accepts every unambiguous prefix of a flag.
// "--kv-t" is enough for argparse. Six characters tell the flag from --kv-cache-dtype and the like.
bool is_connector_flag(std::string_view name) {
  return name.size() >= 6 && kConnectorFlag.starts_with(name);
}

// An option without "=" may take the next word as its value.
bool is_unread_option(const FlagWord& word) {
  return word.text && word.text->starts_with('-') && word.text->find('=') == std::string::npos;
}

// An option that is missing here counts as one with a value: an unreadable word behind it passes
// for this value.
// Options of vLLM without a value, and options with several values.
constexpr std::array<std::string_view, 3> kSwitchBeginnings{"--enable-", "--disable-", "--no-"};
constexpr std::array<std::string_view, 6> kSwitches{
    "--trust-remote-code", "--enforce-eager",       "--headless",
    "--async-scheduling",  "--skip-tokenizer-init", "--"};
constexpr std::array<std::string_view, 2> kLists{"--served-model-name", "--lora-modules"};

bool is_switch(const FlagWord& word) {
  const std::string name = *word.text == "--" ? "--" : flag_name(*word.text);
  return std::ranges::find(kSwitches, name) != kSwitches.end() ||
         std::ranges::any_of(kSwitchBeginnings,
                             [&name](std::string_view one) { return name.starts_with(one); });
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
// `--enforce-eager $MORE` it may be flags.
bool may_be_flags(std::span<const FlagWord> words, std::size_t at, bool takes_model) {
  if (words[at].text || !words[at].begins.empty()) return false;
  if (at == 0) return words[at].many || !takes_model;
  if (is_unread_option(words[at - 1])) return is_switch(words[at - 1]);
  if (words[at].many) return true;
  // A list such as --served-model-name takes all words up to the next option.
  std::size_t option = at - 1;
  while (option > 0 && !words[option].many && !is_unread_option(words[option])) --option;
  return !is_unread_option(words[option]) ||
         std::ranges::find(kLists, flag_name(*words[option].text)) == kLists.end();
}

ConnectorFlag find_connector_flag(std::span<const FlagWord> words) {
  using Form = ConnectorFlag::Form;
  ConnectorFlag found;
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (!words[at].text) {
      if (is_connector_flag(flag_name(words[at].begins)))
        return {
            Form::kUnreadable, at, "",
            "the value of --kv-transfer-config comes from a variable; write the value out as JSON"};
      continue;
    }
    const std::string name = flag_name(*words[at].text);
    // `--kv-transfer-config.kv_connector X`: vLLM joins such keys to one JSON.
    if (name.starts_with(std::string(kConnectorFlag) + "."))
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
  // E.g. in braces, which a shell expands to several words.
  const bool inside = std::ranges::any_of(words, [](const FlagWord& word) {
    return word.text.value_or(word.begins).find(kConnectorFlag) != std::string::npos;
  });
  if (found.form == Form::kAbsent && inside)
    return {Form::kUnreadable, 0, "",
            "--kv-transfer-config is inside another word; write the flag as a word of its own"};
  return found;
}

// With these flags vLLM ignores or replaces the connector, and an injected flag would be lost or
// would lose the user's.
std::string refused_by_flags(std::span<const FlagWord> words) {
  for (const FlagWord& word : words) {
    const std::string text = word.text.value_or(word.begins), name = flag_name(text);
    if (name == "--config")
      return "--config names a file of flags, and Larder's connector would replace a connector in "
             "the file; write the "
             "file's flags into the command, or Larder's --kv-transfer-config into the file and "
             "set spec.engine.flags of the "
             "pool to false";
    if (name == "--kv-offloading-size")
      return "with --kv-offloading-size vLLM replaces any connector by its own; remove the flag";
    if (name == "--backend" && text == "--backend=huggingface")
      return "--backend=huggingface does not run vLLM; use --backend=vllm";
  }
  return "";
}

// At the end, unless an expansion may bring flags: see engine_flags.h.
std::size_t place_for_flag(std::span<const FlagWord> words) {
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at].text && *words[at].text == "--") return at;
    if (!words[at].many) continue;
    if (at == 0) return 1;
    // The word may be the value of the option in front, `--port $PORT`; the two stay together.
    return is_unread_option(words[at - 1]) ? at - 1 : at;
  }
  return words.size();
}

}  // namespace larder::webhook
