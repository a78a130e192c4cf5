// How a container starts its engine: by an argv that is written out, by a script that a shell
// reads, or by its image's entrypoint.
//
// Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::webhook {

struct CommandShape {
  enum class Kind {
    kArgv,        // `vllm serve m`, `python3 -m vllm.entrypoints.openai.api_server`: index is the first flag
    kScript,      // `bash -c SCRIPT`: index is the script
    kEntrypoint,  // args for an entrypoint that only the image knows: index is 0
    kForeign,     // a command that is not known to start vLLM
    kUnseen,      // neither command nor args: the image decides all of it
  } kind = Kind::kUnseen;
  std::size_t index = 0;  // in argv_of()

  static constexpr std::size_t kNoScript = static_cast<std::size_t>(-1);
  // kScript: index. kArgv: the script that runs those words, `sh -c 'ulimit -n 65536; exec "$@"' --
  // vllm serve m`. Else kNoScript.
  std::size_t script = kNoScript;
  std::string lost;  // CommandHead::lost
};

CommandShape shape_of(const api::Object& container);

// command and args in one; a member that is no text is nothing.
std::vector<std::optional<std::string>> argv_of(const api::Object& container);

// Whether the container runs KServe's Hugging Face server, by its image's name or its command.
bool is_huggingface_server(const api::Object& container);

// Whether args for an unseen entrypoint have a flag that only vLLM has, or begin with a model.
bool has_engine_args(const api::Object& container);

// Whether args for an unseen entrypoint, or the image's name, say that it is vLLM.
bool looks_like_engine(const api::Object& container);

}  // namespace larder::webhook
