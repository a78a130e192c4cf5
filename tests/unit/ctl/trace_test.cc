// Recorded traces: written by `larderctl trace`, read by `simulate`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "sidecar/ctl/simulate.h"
#include "sidecar/ctl/trace_file.h"
#include "sidecar/ctl/trace_recorder.h"
#include "sidecar/pages/status_json.h"

namespace larder::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TraceTest : public testing::Test {
 protected:
  ~TraceTest() override {
    for (const std::string& file : files_) std::remove(file.c_str());
  }
  std::string file(const std::string& text) {
    files_.push_back(testing::TempDir() + "trace_" + std::to_string(::getpid()) + "_" +
                     std::to_string(files_.size()));
    std::ofstream(files_.back()) << text;
    return files_.back();
  }
  Result<std::string> simulated(const std::string& trace, const std::string& sizes,
                                const std::string& policies = "lru",
                                const std::string& output = "") {
    Arguments arguments;
    arguments.words = {"simulate", file(trace)};
    arguments.sizes = sizes;
    arguments.policies = policies;
    arguments.output = output;
    arguments.block_bytes = "1MiB";
    return simulate(arguments);
  }

  std::vector<std::string> files_;
};

constexpr const char* kMooncake =
    "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [1, 2]}\n"
    "{\"timestamp\": 2000, \"input_length\": 1024, \"output_length\": 5, \"hash_ids\": [1, 3]}\n";

TEST_F(TraceTest, ReadsMooncakeFormatAndMergesFilesByTime) {
  const std::vector<std::string> files{
      file(kMooncake),
      file(R"({"timestamp": 1000, "input_length": 256, "hash_ids": [9], "block_tokens": 256, )"
           R"("block_bytes": 77})")};
  const Result<std::vector<sizing::TracedRequest>> trace = read_traces(files, 5);
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  ASSERT_EQ(trace->size(), 3U);
  EXPECT_THAT((*trace)[0].chunks, ElementsAre(1, 2));
  EXPECT_EQ((*trace)[0].chunk_tokens, kMooncakeBlockTokens);
  EXPECT_EQ((*trace)[0].chunk_bytes, 5U);
  EXPECT_EQ((*trace)[0].tokens, 1000U);
  EXPECT_THAT((*trace)[1].chunks, ElementsAre(9));
  EXPECT_EQ((*trace)[1].chunk_bytes, 77U);
  EXPECT_THAT((*trace)[2].chunks, ElementsAre(1, 3));
}

TEST_F(TraceTest, ErrorsNameFileAndLine) {
  const auto error = [&](const std::string& text, std::uint64_t block_bytes = 1) {
    const std::vector<std::string> files{file(text)};
    const std::string why = read_traces(files, block_bytes).status().text();
    return why.starts_with(files[0]) ? why.substr(files[0].size()) : why;
  };
  EXPECT_THAT(error(std::string(kMooncake) + "{\n"), HasSubstr(":3: not {\"timestamp\""));
  EXPECT_THAT(error("{\"input_length\": 5}\n"), HasSubstr(":1: not {"));
  EXPECT_THAT(error("{\"input_length\": 5, \"hash_ids\": [\"x\"]}\n"), HasSubstr(":1: not {"));
  EXPECT_THAT(
      error(kMooncake, 0),
      HasSubstr(":1: the trace does not say how much memory a block takes: --block-bytes SIZE"));
  EXPECT_EQ(error("\n\n"), "there is no request in the trace");
  const std::vector<std::string> missing{"/nonexistent/trace"};
  EXPECT_EQ(read_traces(missing, 1).status().text(),
            "trace /nonexistent/trace: No such file or directory");
}

TEST_F(TraceTest, SimulateReportsHitsOfEachSizeAndPolicy) {
  const Result<std::string> table = simulated(kMooncake, "1MiB,4MiB", "lru,optimal");
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_EQ(*table,
            "2 requests for 2,024 tokens in 4 blocks; to keep every block takes 3.0 MiB\n\n"
            "found          1.0 MiB     4.0 MiB\n"
            "lru              25.3%       25.3%\n"
            "optimal          25.3%       25.3%\n\n"
            "found: of the tokens asked for. larderd's policy is lru; optimal knows the future, "
            "and is the upper bound.\n");
  const Result<std::string> json = simulated(kMooncake, "4MiB", "lru", "json");
  EXPECT_THAT(*json, HasSubstr("\"tokens_hit\": 512"));
  EXPECT_THAT(*json, HasSubstr("\"size_bytes\": 4194304"));
  EXPECT_THAT(*simulated(kMooncake, ""), HasSubstr("3.0 MiB\nlru")) << "without sizes, up to all";
}

TEST_F(TraceTest, SimulateReportsWrongArguments) {
  EXPECT_THAT(simulated(kMooncake, "1GB").status().text(), HasSubstr("--sizes: "));
  EXPECT_EQ(simulated(kMooncake, "1MiB", "mru").status().text(),
            "--policies: 'mru' is no policy: lru, adaptive, fifo, s3-fifo, optimal");
  EXPECT_EQ(simulated(kMooncake, "1MiB", ",").status().text(), "--policies names no policy");
  EXPECT_THAT(simulated(kMooncake, "1MiB", "lru", "yaml").status().text(),
              HasSubstr("table or json, not 'yaml'"));
}

TEST_F(TraceTest, RecordedTraceIsReadBySimulate) {
  const stats::TracePage page{
      5000, 12, 3, {{4000, "llama\033[2J", 600, 256, 256, 4096, {7, (1ULL << 53) - 1}}}};
  const Result<TraceLines> lines = trace_lines(pages::trace_json(page), 1'700'000'000'000);
  ASSERT_TRUE(lines.ok()) << lines.status().to_string();
  EXPECT_EQ(lines->next, 12U);
  EXPECT_EQ(lines->lost, 3U);
  EXPECT_EQ(lines->requests, 1U);
  EXPECT_THAT(lines->text, HasSubstr("\"timestamp\":1699999999000"));
  EXPECT_THAT(lines->text, testing::Not(HasSubstr("\\u001b")));
  const std::vector<std::string> files{file(lines->text)};
  const Result<std::vector<sizing::TracedRequest>> trace = read_traces(files, 0);
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  EXPECT_THAT((*trace)[0].chunks, ElementsAre(7, (1ULL << 53) - 1));
  EXPECT_EQ((*trace)[0].chunk_bytes, 4096U);
  EXPECT_EQ((*trace)[0].tokens, 600U);
}

TEST_F(TraceTest, ExistingFileIsNotOverwritten) {
  const std::string there = file("mine\n");
  EXPECT_EQ(record_trace("/nonexistent/x.admin", there, 1).status().code(), Code::kAlreadyExists);
}

}  // namespace
}  // namespace larder::ctl
