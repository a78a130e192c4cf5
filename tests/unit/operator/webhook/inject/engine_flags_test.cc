#include "operator/webhook/inject/engine_flags.h"

#include <gtest/gtest.h>

#include <vector>

namespace larder::webhook {
namespace {

using Form = ConnectorFlag::Form;

std::vector<FlagWord> words(std::initializer_list<const char*> texts) {
  std::vector<FlagWord> all;  // "$X": a variable
  for (const std::string text : texts)
    all.push_back(text[0] == '$' ? FlagWord{std::nullopt, true} : FlagWord{text, false});
  return all;
}

TEST(EngineFlags, FlagNamesMatchVllm) {
  EXPECT_EQ(flag_name("--kv_transfer_config=a_b"), "--kv-transfer-config");
  EXPECT_EQ(flag_name("--"), "");
  EXPECT_EQ(flag_name("-tp"), "");
  EXPECT_EQ(flag_name("model"), "");
}

TEST(EngineFlags, ConnectorIsFoundInEveryForm) {
  EXPECT_EQ(find_connector_flag(words({"m", "--kv-cache-dtype", "auto"})).form, Form::kAbsent);
  const ConnectorFlag next = find_connector_flag(words({"m", "--kv_transfer_config", "{}", "--x"}));
  EXPECT_EQ(next.form, Form::kNextWord);
  EXPECT_EQ(next.word, 2u);
  EXPECT_EQ(next.value, "{}");
  const ConnectorFlag same = find_connector_flag(words({"--kv-transfer-config={\"a\":\"=\"}"}));
  EXPECT_EQ(same.form, Form::kSameWord);
  EXPECT_EQ(same.value, "{\"a\":\"=\"}");
  EXPECT_EQ(find_connector_flag(words({"--kv-tr", "{}"})).form, Form::kNextWord)
      << "argparse takes unique beginnings";
}

TEST(EngineFlags, UnreadableFlagsAreReported) {
  for (const auto& unreadable :
       {words({"--kv-transfer-config"}), words({"--kv-transfer-config", "$X"}),
        words({"--kv-transfer-config.kv_role", "x"}),
        words({"--kv-transfer-conf.kv_connector", "x"}), words({"m", "{--kv_transfer_config,{}}"}),
        words({"--kv-transfer-config={}", "--kv-transfer-config={}"})}) {
    const ConnectorFlag flag = find_connector_flag(unreadable);
    EXPECT_EQ(flag.form, Form::kUnreadable);
    EXPECT_FALSE(flag.why.empty());
  }
}

TEST(EngineFlags, NewFlagIsPlacedBeforeUnknownArguments) {
  EXPECT_EQ(place_for_flag(words({}), true), 0u);
  EXPECT_EQ(place_for_flag(words({"m", "--port", "1"}), true), 3u);
  EXPECT_EQ(place_for_flag(words({"m", "--", "x"}), true), 1u);
  EXPECT_EQ(place_for_flag(words({"m", "--port", "1", "$X"}), true), 3u);
  EXPECT_EQ(place_for_flag(words({"m", "--port", "$PORT", "--x"}), true), 1u)
      << "an option and its value stay together";
  EXPECT_EQ(place_for_flag(words({"m", "--port=1", "$X", "$Y"}), true), 2u);
  EXPECT_EQ(place_for_flag(words({"$MODEL", "--port"}), true), 1u) << "the model stays first";
  EXPECT_EQ(place_for_flag(words({"--port", "$P"}), true), 0u);
  EXPECT_EQ(place_for_flag(words({"$FLAGS", "--port"}), false), 0u) << "no model is expected";
  EXPECT_EQ(place_for_flag(std::vector{FlagWord{"m"}, FlagWord{std::nullopt, false}}, true), 1u)
      << "a quoted word may be a flag";
}

// covers F-310
TEST(EngineFlags, FlagsRefusingAConnectorAreReported) {
  EXPECT_EQ(refused_by_flags(words({"m", "--kv-cache-dtype", "fp8", "$X"})), "");
  EXPECT_NE(refused_by_flags(words({"m", "--kv_offloading_size=1"})), "");
  EXPECT_NE(refused_by_flags(words({"--backend=huggingface"})), "");
  EXPECT_NE(refused_by_flags(words({"m", "--use-replayssm"})), "");
  EXPECT_NE(refused_by_flags(words({"m", "--use_replay"})), "");
  EXPECT_NE(refused_by_flags(words({"openai/Whisper-large-v3"})), "");
  EXPECT_NE(refused_by_flags(words({"--model", "openai/whisper-small"})), "");
  EXPECT_EQ(refused_by_flags(words({"m", "--served-model-name", "whisper"})), "");
  EXPECT_EQ(refused_by_flags(words({"m", "--prefix-match-unit", "8"})), "");
  EXPECT_NE(
      refused_by_flags(words({"m", "--no-enable-prefix-caching", "--prefix-match-unit", "8"})), "");
}

}  // namespace
}  // namespace larder::webhook
