// What an error reply means for the tier besides its own command's failure. Pure.
//
// Of an error's text only a word that is known is ever shown: a hostile server could send back the password that it was given.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "shim/base/status.h"

namespace larder::remote {

enum class Trouble {
  kNone,       // of this command alone
  kReads,      // it answers nothing just now: neither gets nor puts
  kWrites,     // it takes no puts
  kDenied,     // who we are is not accepted; also for the time after a new greeting
  kForbidden,  // who we are may not do this
  kWrongMode,  // it is not what was configured
};

struct ErrorMeaning {
  std::string_view code;
  Code status;
  Trouble trouble;
  std::string_view text;  // for people
};

// By the first word of the reply's text, without its "-".
inline const ErrorMeaning& meaning_of(std::string_view reply) {
  static constexpr std::array<ErrorMeaning, 18> kMeanings{{
      {"OOM", Code::kResourceExhausted, Trouble::kWrites, "the server is full: maxmemory, and its policy evicts nothing (OOM)"},
      {"MISCONF", Code::kUnavailable, Trouble::kWrites, "the server cannot persist and takes no writes (MISCONF)"},
      {"READONLY", Code::kUnavailable, Trouble::kWrites, "the server is a replica (READONLY)"},
      {"NOREPLICAS", Code::kUnavailable, Trouble::kWrites, "the server has too few good replicas to take writes (NOREPLICAS)"},
      {"LOADING", Code::kUnavailable, Trouble::kReads, "the server is loading its data set (LOADING)"},
      {"BUSY", Code::kUnavailable, Trouble::kReads, "the server is busy with a script (BUSY)"},
      {"MASTERDOWN", Code::kUnavailable, Trouble::kReads, "the server is a replica without its master (MASTERDOWN)"},
      {"CLUSTERDOWN", Code::kUnavailable, Trouble::kReads, "the server's cluster is down (CLUSTERDOWN)"},
      {"NOAUTH", Code::kPermissionDenied, Trouble::kDenied, "the server wants a password (NOAUTH)"},
      {"WRONGPASS", Code::kPermissionDenied, Trouble::kDenied, "the server refuses user or password (WRONGPASS)"},
      {"DENIED", Code::kPermissionDenied, Trouble::kDenied,
       "the server is in protected mode and takes local clients alone (DENIED)"},
      {"NOPERM", Code::kPermissionDenied, Trouble::kForbidden,
       "the user may not run a command that Larder needs, or not on its keys (NOPERM)"},
      {"NOPROTO", Code::kUnsupported, Trouble::kWrongMode, "the server does not speak RESP2 (NOPROTO)"},
      {"MOVED", Code::kFailedPrecondition, Trouble::kWrongMode, "the server is a node of a Cluster (MOVED)"},
      {"ASK", Code::kFailedPrecondition, Trouble::kWrongMode, "the server is a node of a Cluster (ASK)"},
      {"CROSSSLOT", Code::kFailedPrecondition, Trouble::kWrongMode, "the server is a node of a Cluster (CROSSSLOT)"},
      {"TRYAGAIN", Code::kUnavailable, Trouble::kNone, "the server says TRYAGAIN"},
      {"WRONGTYPE", Code::kDataLoss, Trouble::kNone, "a value of another type under the key (WRONGTYPE)"},
  }};
  // A value that is longer than proto-max-bulk-len: Redis says so, and closes the connection.
  static constexpr ErrorMeaning kTooLong{"ERR", Code::kUnavailable, Trouble::kNone,
                                         "the server takes no value of this length (proto-max-bulk-len)"};
  static constexpr ErrorMeaning kOther{"", Code::kUnavailable, Trouble::kNone, "the server answered with an error"};
  const std::string_view word = reply.substr(0, reply.find(' '));
  for (const ErrorMeaning& meaning : kMeanings)
    if (meaning.code == word) return meaning;
  return reply.starts_with("ERR Protocol error: invalid bulk length") ? kTooLong : kOther;
}

// Whether a server that answers a put so refuses this chunk and others of its size, for now. A server that takes no write at all is
// asked by a short one instead.
inline bool refuses_chunk(const ErrorMeaning& meaning) {
  return meaning.code.empty() || meaning.code == "ERR" || meaning.code == "OOM" || meaning.code == "NOPERM";
}

inline Status status_of(const ErrorMeaning& meaning) {
  return {meaning.status, std::string(meaning.text)};
}

}  // namespace larder::remote
