// How a container starts its engine: by an argv, by a script of a shell, or by the image's
// entrypoint.
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
    // `vllm serve m`, `python3 -m vllm.entrypoints.openai.api_server`: index is the first flag
    kArgv,
    kScript,      // `bash -c SCRIPT`: index is the script
    kEntrypoint,  // args for the image's entrypoint: index is 0
    kForeign,     // a command that is not known to start vLLM
    kUnseen,      // neither command nor args: the image decides
  } kind = Kind::kUnseen;
  std::size_t index = 0;  // in argv_of()

  static constexpr std::size_t kNoScript = static_cast<std::size_t>(-1);
  // kScript: equals index. kArgv: the script that runs the words, as in `sh -c 'ulimit -n 65536;
  // exec "$@"' -- vllm serve m`. Otherwise kNoScript.
  std::size_t script = kNoScript;
  std::string lost;  // CommandHead::lost
};

CommandShape shape_of(const api::Object& container);

// command and args in one list. A member that is no text is empty.
std::vector<std::optional<std::string>> argv_of(const api::Object& container);

// Whether the container runs KServe's Hugging Face server, from the image's name or the command.
bool is_huggingface_server(const api::Object& container);

// Whether args for an unknown entrypoint have a flag that only vLLM has or that names the
// model, or begin with a model.
bool has_engine_args(const api::Object& container);

// Whether args for the image's entrypoint can be vLLM's. An image that is not known to start vLLM
// may run its args as a program: `sshd -D`. The args must then begin with `serve`, a model, or a
// flag, or have a flag that only vLLM has.
bool are_engine_args(const api::Object& container);

// Whether args for an unknown entrypoint, or the image's name, point to vLLM.
bool looks_like_engine(const api::Object& container);

}  // namespace larder::webhook
