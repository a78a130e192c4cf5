#include "sidecar/ctl/simulate.h"

#include <algorithm>
#include <vector>

#include "sidecar/config/values.h"
#include "sidecar/ctl/answer_json.h"
#include "sidecar/ctl/trace_file.h"
#include "sidecar/sizing/simulated_cache.h"

namespace larder::ctl {
namespace {

// Bounds the time: each cell is one run over the trace.
constexpr std::size_t kMaxColumns = 16;  // sizes, and policies
constexpr std::size_t kColumn = 12, kPolicyColumn = 10;

struct Row {
  std::string policy;
  std::vector<sizing::Simulated> results;  // by size
};

struct Study {
  std::vector<sizing::TracedRequest> trace;
  std::uint64_t distinct_bytes = 0;
  std::vector<std::uint64_t> sizes;
  std::vector<Row> rows;
};

Result<std::vector<std::string>> listed(const std::string& text, const char* option) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    // An empty part ("1GiB,,2GiB") is ignored.
    if (end != at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (parts.size() > kMaxColumns)
    return Status(Code::kInvalidArgument,
                  std::string(option) + " takes at most " + std::to_string(kMaxColumns));
  return parts;
}

Result<std::vector<std::uint64_t>> sizes_of(const std::string& text, std::uint64_t distinct_bytes) {
  const Result<std::vector<std::string>> parts = listed(text, "--sizes");
  if (!parts.ok()) return parts.status();
  std::vector<std::uint64_t> sizes;
  for (const std::string& part : *parts) {
    const Result<std::uint64_t> size = config::parse_size(part);
    if (!size.ok()) return Status(Code::kInvalidArgument, "--sizes: " + size.status().text());
    sizes.push_back(*size);
  }
  if (sizes.empty())
    // From a sixteenth of all bytes to all of them.
    for (const std::uint64_t part : {16, 8, 4, 2, 1})
      sizes.push_back(std::max<std::uint64_t>(distinct_bytes / part, 1));
  return sizes;
}

Result<Study> study(const Arguments& arguments) {
  std::uint64_t block_bytes = 0;
  if (!arguments.block_bytes.empty()) {
    const Result<std::uint64_t> size = config::parse_size(arguments.block_bytes);
    if (!size.ok()) return Status(Code::kInvalidArgument, "--block-bytes: " + size.status().text());
    // 0 without the option. A trace of `larderctl trace` has its own sizes.
    block_bytes = *size;
  }
  Result<std::vector<sizing::TracedRequest>> trace =
      read_traces(std::span(arguments.words).subspan(1), block_bytes);
  if (!trace.ok()) return trace.status();
  Study study;
  study.trace = *std::move(trace);
  // The memory that keeps every chunk: an upper end for useful sizes.
  study.distinct_bytes = sizing::distinct_bytes(study.trace);
  Result<std::vector<std::uint64_t>> sizes = sizes_of(arguments.sizes, study.distinct_bytes);
  if (!sizes.ok()) return sizes.status();
  study.sizes = *std::move(sizes);
  const Result<std::vector<std::string>> policies = listed(arguments.policies, "--policies");
  if (!policies.ok()) return policies.status();
  const auto warm_up = static_cast<std::size_t>(static_cast<double>(study.trace.size()) *
                                                arguments.warm_up_percent / 100);
  for (const std::string& policy : *policies) {
    Row row{policy, {}};
    for (const std::uint64_t size : study.sizes) {
      // Every cell reads the same trace in memory, so the columns can be compared exactly.
      const Result<sizing::Simulated> result = sizing::simulate(study.trace, policy, size, warm_up);
      if (!result.ok())
        return Status(Code::kInvalidArgument, "--policies: " + result.status().text());
      row.results.push_back(*result);
    }
    study.rows.push_back(std::move(row));
  }
  return study;
}

std::string table_of(const Study& study) {
  // Requests, tokens and blocks are the same in every cell.
  const sizing::Simulated& any = study.rows.front().results.front();
  std::string text =
      base::plural(any.requests, "request") + " for " + base::plural(any.tokens, "token") + " in " +
      base::plural(any.chunks, "block") + "; to keep every block takes " +
      base::bytes_text(study.distinct_bytes) + "\n\n" + base::column("found", kPolicyColumn);
  // Right-aligned numbers under right-aligned sizes.
  const auto cell = [](const std::string& value) {
    return std::string(kColumn - std::min(kColumn, value.size()), ' ') + value;
  };
  for (const std::uint64_t size : study.sizes) text += cell(base::bytes_text(size));
  text += "\n";
  for (const Row& row : study.rows) {
    text += base::column(row.policy, kPolicyColumn);
    for (const sizing::Simulated& result : row.results)
      text += cell(base::percent_text(static_cast<double>(result.tokens_hit),
                                      static_cast<double>(result.tokens)));
    text += "\n";
  }
  return text +
         "\nfound: of the tokens asked for. larderd's policies are lru and adaptive "
         "(memory.eviction); optimal knows the future, and is the upper bound.\n";
}

std::string json_of(const Study& study) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Row& row : study.rows)
    for (std::size_t i = 0; i < study.sizes.size(); ++i) {
      const sizing::Simulated& result = row.results[i];
      // One flat list of cells, easy to load as a table.
      results.push_back({{"policy", row.policy},
                         {"size_bytes", study.sizes[i]},
                         {"hit_ratio", result.hit_ratio()},
                         {"tokens_hit", result.tokens_hit},
                         {"blocks_hit", result.chunks_hit},
                         {"requests_hit", result.requests_hit}});
    }
  const sizing::Simulated& any = study.rows.front().results.front();
  const nlohmann::ordered_json all{{"requests", any.requests},
                                   {"tokens", any.tokens},
                                   {"blocks", any.chunks},
                                   {"distinct_bytes", study.distinct_bytes},
                                   {"results", results}};
  return all.dump(2) + "\n";
}

}  // namespace

Result<std::string> simulate(const Arguments& arguments) {
  const bool as_json = arguments.json || arguments.output == "json";
  if (!as_json && !arguments.output.empty() && arguments.output != "table")
    return Status(Code::kInvalidArgument,
                  "--output of simulate is table or json, not '" + arguments.output + "'");
  const Result<Study> done = study(arguments);
  if (!done.ok()) return done.status();
  // --policies "" has no row: an error and no empty table.
  if (done->rows.empty()) return Status(Code::kInvalidArgument, "--policies names no policy");
  return as_json ? json_of(*done) : table_of(*done);
}

}  // namespace larder::ctl
