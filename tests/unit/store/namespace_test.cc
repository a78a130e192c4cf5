#include "sidecar/store/fingerprint_diff.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

// covers F-064
TEST(FingerprintDiff, NamesTheFieldAndBothValues) {
  const auto difference =
      diff_fingerprints("engine: vllm\ndtype: bfloat16\n", "engine: vllm\ndtype: float16\n");
  EXPECT_EQ(difference.fields, 1U);
  EXPECT_EQ(difference.text, "dtype: bfloat16 -> float16");
}

TEST(FingerprintDiff, FieldMissingOnOneSideIsShown) {
  EXPECT_EQ(diff_fingerprints("a: 1\n", "a: 1\nlora: x").text, "lora: (none) -> x");
  EXPECT_EQ(diff_fingerprints("a: 1\nlora: x", "a: 1\n").text, "lora: x -> (none)");
}

// The lines behind the digest are the configuration, which has a line for each field with another
// value than its default.
TEST(FingerprintDiff, ShowsTheDefaultOfAField) {
  const std::string plain = "chunk_tokens: 16\nconfiguration: aa\nmodel.dtype: bfloat16\n";
  const std::string window =
      "chunk_tokens: 16\nconfiguration: bb\nmodel.dtype: bfloat16\nmodel.window: 128\n";
  EXPECT_EQ(diff_fingerprints(plain, window).text, "model.window: (the default) -> 128");
  EXPECT_EQ(diff_fingerprints(window, plain).text, "model.window: 128 -> (the default)");
  EXPECT_EQ(diff_fingerprints(plain, "shard: 1\n" + window).text,
            "model.window: (the default) -> 128; shard: (none) -> 1")
      << "a fact has no default";
  const std::string cut = "chunk_tokens: 16\nconfiguration: cc\nfurther_fields: 2 dd\n";
  EXPECT_EQ(diff_fingerprints(cut, window).text,
            "further_fields: 2 dd -> (none); model.dtype: (not shown) -> bfloat16; model.window: "
            "(not shown) -> 128");
  const std::string folded =
      "chunk_tokens: 16\nconfiguration: cc\nfolded_fields: true\nmodel: {1}\n";
  EXPECT_EQ(diff_fingerprints(window, folded).text,
            "model: (not shown) -> {1}; model.dtype: bfloat16 -> (not shown); model.window: 128 -> "
            "(not shown)");
}

// One of two fingerprints may have less room for the same value.
TEST(FingerprintDiff, TruncatedValueIsComparedByItsDigest) {
  const std::string digest = " (812 characters, 0123456789abcdef0123456789abcdef)";
  const std::string whole = "overrides: aaaabbbb" + digest + "\n",
                    cut = "overrides: aaaa[4-8 12345678]" + digest + "\n";
  EXPECT_EQ(diff_fingerprints(whole + "seed: 1\n", cut + "seed: 2\n").text, "seed: 1 -> 2");
  const std::string other =
      "overrides: aaaabbbb (812 characters, 0123456789abcdef0123456789abcde0)\n";
  EXPECT_EQ(diff_fingerprints(whole, other).fields, 1U);
  const std::string no_digest = " (812 characters, ...)\n";
  EXPECT_EQ(diff_fingerprints("a: b" + no_digest, "a: c" + no_digest).fields, 1U);
}

TEST(FingerprintDiff, ConfigurationDigestIsShownIfItAloneDiffers) {
  const std::string one = "configuration: ab\ndtype: a\n";
  EXPECT_EQ(diff_fingerprints(one, "configuration: cd\ndtype: b\n").text, "dtype: a -> b");
  EXPECT_EQ(diff_fingerprints(one, "configuration: cd\ndtype: a\n").text,
            "configuration: ab -> cd");
}

TEST(FingerprintDiff, IsBounded) {
  std::string before, after;
  for (int i = 0; i < 1000; ++i) {
    before += "field" + std::to_string(i) + ": " + std::string(1000, 'x') + "\n";
    after += "field" + std::to_string(i) + ": " + std::string(1000, 'y') + "\n";
  }
  const auto difference = diff_fingerprints(before, after);
  EXPECT_EQ(difference.fields, 1000U);
  EXPECT_LT(difference.text.size(), 4096U);
  EXPECT_TRUE(difference.text.ends_with("; and 992 more fields"));
}

TEST(FingerprintDiff, ShowsWhereLongValuesDiffer) {
  const std::string long_value(500, 'x');
  const auto difference = diff_fingerprints("w: " + long_value + "A", "w: " + long_value + "B");
  EXPECT_NE(difference.text.find("xA -> "), std::string::npos);
  EXPECT_TRUE(difference.text.ends_with("xB"));
}

TEST(Namespaces, SameIdHasTheSameHandleAndNearestIsReported) {
  NamespaceTable table;
  std::string difference;
  EXPECT_EQ(*table.open(make_spec("a: 1\nb: 1\nc: 1\n"), 1 << 20, &difference), 0U);
  EXPECT_EQ(difference, "");
  EXPECT_EQ(*table.open(make_spec("a: 2\nb: 2\nc: 1\n"), 1 << 20, &difference), 1U);
  EXPECT_EQ(*table.open(make_spec("a: 2\nb: 3\nc: 1\n"), 1 << 20, &difference), 2U);
  const std::string nearest = table.at(1).spec.id.to_hex().substr(0, 8);
  EXPECT_EQ(difference, "differs from namespace " + nearest + " in: b: 2 -> 3");
  EXPECT_EQ(*table.open(make_spec("a: 1\nb: 1\nc: 1\n"), 1 << 20, &difference), 0U);
}

// The need of a tier and a fetch: of all shards, each with a layout of its own.
TEST(Namespaces, TheLargestChunkAndFamilyAreKnown) {
  NamespaceTable table;
  std::string difference;
  EXPECT_EQ(table.largest_slot_bytes() + table.largest_family_bytes(), 0U);
  const std::uint32_t small = *table.open(make_spec("a: 1"), 1 << 20, &difference);
  EXPECT_EQ(table.largest_slot_bytes(), 8192U);
  EXPECT_EQ(table.largest_family_bytes(), 2 * 8192U) << "two shards";
  NamespaceSpec shard = make_spec("b: 1", 16'384);
  shard.layout_shard = 1;
  const std::uint32_t large = *table.open(shard, 1 << 20, &difference);
  EXPECT_EQ(table.largest_family_bytes(), 20'480U) << "the other shard is unknown yet";
  shard.layout_shard = 2;
  shard.groups = {{32'768, 1, 0}};
  EXPECT_EQ(*table.open(shard, 1 << 20, &difference), large);
  EXPECT_EQ(table.largest_slot_bytes(), 36'864U);
  EXPECT_EQ(table.largest_family_bytes(), 20'480U + 36'864U);
  table.join(large);
  table.leave(large);
  EXPECT_TRUE(table.give_back(large));
  EXPECT_EQ(table.largest_family_bytes(), 2 * 8192U);
  EXPECT_TRUE(table.is_open(small));
}

TEST(Namespaces, ContradictionsAreReported) {
  NamespaceTable table;
  std::string difference;
  const auto refused = [&](const NamespaceSpec& spec) {
    return table.open(spec, 1 << 20, &difference).status();
  };
  NamespaceSpec spec = make_spec("a: 1");
  spec.id.lo ^= 1;
  EXPECT_NE(refused(spec).text().find("not the hash"), std::string::npos);
  spec = make_spec("a: 1");
  spec.shard_count = 0;
  EXPECT_NE(refused(spec).text().find("shard_count"), std::string::npos);
  spec = make_spec("a: 1");
  spec.groups.clear();
  EXPECT_NE(refused(spec).text().find("group_count"), std::string::npos);
  spec = make_spec("a: 1", 0);
  EXPECT_NE(refused(spec).text().find("piece_bytes"), std::string::npos);
  spec = make_spec("a: 1", 64 << 20, 0xffffffff);
  EXPECT_EQ(refused(spec).code(), Code::kOutOfRange);
  spec = make_spec("a: 1", 1 << 20);
  EXPECT_NE(refused(spec).text().find("memory.size"), std::string::npos);
  EXPECT_EQ(table.size(), 0U);
}

// covers F-102
TEST(Namespaces, OtherLayoutOfTheSameTextIsAnotherNamespace) {
  NamespaceTable table;
  std::string difference;
  const auto open = [&](const NamespaceSpec& spec) {
    return *table.open(spec, 1 << 20, &difference);
  };
  NamespaceSpec more_shards = make_spec("a: 1");
  more_shards.shard_count = 3;
  EXPECT_EQ(open(make_spec("a: 1")), 0U);
  EXPECT_EQ(open(make_spec("a: 1", 4096, 2)), 1U);
  EXPECT_NE(difference.find("the chunk layout alone"), std::string::npos) << difference;
  EXPECT_EQ(open(more_shards), 2U);
  EXPECT_EQ(open(make_spec("a: 1")), 0U)
      << "an engine that agrees with an opener shares its chunks";
  EXPECT_EQ(open(make_spec("a: 1", 4096, 2)), 1U);
  table.at(1).chunks = 5;
  EXPECT_EQ(*table.by_prefix(table.at(0).spec.id.to_hex()), (std::vector<std::uint32_t>{1, 0, 2}));
}

TEST(Namespaces, EachShardMayHaveItsOwnLayout) {
  NamespaceTable table;
  std::string difference;
  const auto open = [&](std::uint32_t layout_shard, std::uint32_t pieces) {
    NamespaceSpec spec = make_spec("a: 1", 4096, pieces);
    spec.layout_shard = layout_shard;
    return table.open(spec, 1 << 20, &difference);
  };
  ASSERT_TRUE(open(1, 3).ok());
  EXPECT_EQ(table.at(0).layout(0, 0)->pieces_per_chunk, 3U);
  EXPECT_EQ(table.at(0).layout(1, 0), nullptr) << "no engine has reported the layout yet";
  ASSERT_TRUE(open(2, 5).ok());
  EXPECT_EQ(table.at(0).layout(1, 0)->pieces_per_chunk, 5U);
  EXPECT_EQ(table.at(0).layout(0, 0)->pieces_per_chunk, 3U);
  EXPECT_EQ(table.at(0).layout(1, 1), nullptr);
  EXPECT_EQ(table.at(0).layout(2, 0), nullptr);
  EXPECT_EQ(*open(2, 4), 1U) << "no engine of the first gets another layout of that shard";
  EXPECT_EQ(*open(0, 3), 2U) << "one for all, and one for each";
  EXPECT_EQ(open(3, 3).status().code(), Code::kOutOfRange);
}

// A stage of a pipeline without a layer of some group, or a rank with another larderd.
// covers F-286
TEST(Namespaces, OmittedPartsHaveNoLayout) {
  NamespaceTable table;
  std::string difference;
  NamespaceSpec spec = make_spec("a: 1");
  spec.groups = {{4096, 0, 0}, {8192, 2, 0}};
  spec.layout_shard = 1;
  spec.parts = {0b1110};
  const std::uint32_t handle = *table.open(spec, 1 << 20, &difference);
  EXPECT_EQ(table.at(handle).layout(0, 0), nullptr);
  EXPECT_EQ(table.at(handle).layout(0, 1)->pieces_per_chunk, 2U);
  EXPECT_EQ(table.at(handle).spec.part_count(), 3U);
  EXPECT_EQ(table.largest_family_bytes(), 20'480U);
  NamespaceSpec second = spec;
  second.layout_shard = 2;
  second.groups = {{4096, 1, 0}, {8192, 1, 0}};
  EXPECT_EQ(*table.open(second, 1 << 20, &difference), handle);
  EXPECT_EQ(table.largest_family_bytes(), 20'480U + 8192U + 12'288U);
  second.parts = {};
  EXPECT_NE(*table.open(second, 1 << 20, &difference), handle)
      << "other parts are another namespace";

  const auto refused = [&](const NamespaceSpec& one) {
    return table.open(one, 1 << 20, &difference).status().text();
  };
  NamespaceSpec wrong = spec;
  wrong.parts = {0b1111};
  EXPECT_NE(refused(wrong).find("pieces_per_chunk of group 0 is 0, and the part is kept"),
            std::string::npos)
      << refused(wrong);
  wrong = spec;
  wrong.groups[0].pieces_per_chunk = 1;
  EXPECT_NE(refused(wrong).find("and the part is left out"), std::string::npos) << refused(wrong);
  wrong = spec;
  wrong.groups[1].pieces_per_chunk = 0;
  wrong.parts = {0};
  EXPECT_NE(refused(wrong).find("no part of a chunk is left"), std::string::npos) << refused(wrong);
  wrong = spec;
  wrong.parts = {0b11110};
  EXPECT_NE(refused(wrong).find("behind the last shard and group"), std::string::npos)
      << refused(wrong);
  wrong.parts = {1, 1};
  EXPECT_NE(refused(wrong).find("part_words 2"), std::string::npos) << refused(wrong);
}

// A wrong layout of one shard, by a member that stays: the processes of the next engine find each
// other.
TEST(Namespaces, MatchPrefersMoreSessionsThenTheYounger) {
  NamespaceTable table;
  std::string difference;
  const auto open = [&](std::uint32_t layout_shard, std::uint32_t pieces) {
    NamespaceSpec spec = make_spec("a: 1", 4096, pieces);
    spec.layout_shard = layout_shard;
    const std::uint32_t handle = *table.open(spec, 1 << 20, &difference);
    table.join(handle);
    return handle;
  };
  const std::uint32_t wrong = open(1, 7);
  const std::uint32_t right = open(1, 3);
  ASSERT_NE(right, wrong);
  EXPECT_EQ(open(2, 5), right) << "one session each: the younger";
  EXPECT_EQ(open(1, 7), wrong);
  EXPECT_EQ(open(1, 3), right);
  EXPECT_EQ(open(2, 5), right) << "the one with more sessions";
}

TEST(Namespaces, TheTableIsBounded) {
  NamespaceTable table;
  std::string difference;
  for (std::uint32_t i = 0; i < protocol::kMaxNamespaces; ++i)
    ASSERT_TRUE(table.open(make_spec("a: " + std::to_string(i)), 1 << 20, &difference).ok());
  EXPECT_EQ(table.open(make_spec("a: x"), 1 << 20, &difference).status().code(),
            Code::kResourceExhausted);
  table.join(77);
  EXPECT_FALSE(table.give_back(77)) << "a session has it open";
  table.leave(77);
  ++table.at(77).slots;
  EXPECT_FALSE(table.give_back(77)) << "it has a chunk";
  --table.at(77).slots;
  ASSERT_TRUE(table.give_back(77));
  const std::uint32_t handle = *table.open(make_spec("a: x"), 1 << 20, &difference);
  EXPECT_EQ(protocol::namespace_place(handle), 77U);
  EXPECT_NE(handle, 77U);
  EXPECT_FALSE(table.is_open(77)) << "an old handle names no namespace";
  EXPECT_TRUE(table.is_open(handle));
}

TEST(Namespaces, PlaceIsRetiredAfterItsLastGeneration) {
  NamespaceTable table(protocol::kLastNamespaceGeneration);
  std::string difference;
  const std::uint32_t last = protocol::make_namespace_handle(0, protocol::kLastNamespaceGeneration);
  for (std::uint32_t place = 0; place < protocol::kMaxNamespaces; ++place) {
    const std::uint32_t handle = *table.open(make_spec("a: 1"), 1 << 20, &difference);
    ASSERT_EQ(handle, last + place);
    ASSERT_NE(handle, protocol::kNoNamespace);
    table.join(handle);
    table.leave(handle);
    ASSERT_TRUE(table.give_back(handle));
  }
  const Status used_up = table.open(make_spec("a: 1"), 1 << 20, &difference).status();
  EXPECT_EQ(used_up.code(), Code::kResourceExhausted);
  EXPECT_NE(used_up.text().find("restart larderd"), std::string::npos) << used_up.text();
}

TEST(Namespaces, LeastUsedHasNoSessionsAndNoPins) {
  NamespaceTable table;
  std::string difference;
  for (std::uint32_t i = 0; i < 4; ++i)
    table.join(*table.open(make_spec("a: " + std::to_string(i)), 1 << 20, &difference));
  EXPECT_EQ(table.least_used(), std::nullopt);
  for (const std::uint32_t handle : {2U, 1U, 3U}) table.leave(handle);
  EXPECT_EQ(table.least_used(), 2U);
  table.at(2).pinned = 1;
  EXPECT_EQ(table.least_used(), 1U);
  table.touch(1);
  EXPECT_EQ(table.least_used(), 3U);
  table.join(3);
  table.join(1);
  EXPECT_EQ(table.least_used(), 2U) << "where all others are in use";
}

TEST(Namespaces, UniquePrefixFindsANamespace) {
  NamespaceTable table;
  std::string difference;
  ASSERT_TRUE(table.open(make_spec("a: 1"), 1 << 20, &difference).ok());
  const std::string id = table.at(0).spec.id.to_hex();
  EXPECT_EQ(*table.by_prefix(id.substr(0, 4)), std::vector<std::uint32_t>{0});
  EXPECT_EQ(*table.by_prefix(id), std::vector<std::uint32_t>{0});
  EXPECT_EQ(table.by_prefix(id.substr(0, 3)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(table.by_prefix("ABCD").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(table.by_prefix(id[0] == '0' ? "1111" : "0000").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace larder::store::testing_support
