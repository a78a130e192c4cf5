// The meaning of an error reply for the tier, besides the failure of one command. Pure.
//
// Of the text of an error only a known word is shown: a hostile server could send back the password
// of the client.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "shim/base/status.h"

namespace larder::remote {

enum class Trouble {
  kNone,       // only this command fails
  kReads,      // the server answers neither gets nor puts for now
  kWrites,     // the server takes no puts
  kDenied,     // the server refuses the user or password; a new handshake may end this
  kForbidden,  // the user may not run this command
  kWrongMode,  // the mode of the server differs from the configuration
};

struct ErrorMeaning {
  std::string_view code;
  Code status;
  Trouble trouble;
  std::string_view text;  // for people
};

// Reads the first word of the text of the reply, without "-".
inline const ErrorMeaning& meaning_of(std::string_view reply) {
  static constexpr std::array<ErrorMeaning, 18> kMeanings{{
      {"OOM", Code::kResourceExhausted, Trouble::kWrites,
       "the server is full: maxmemory, and its policy evicts no key (OOM)"},
      {"MISCONF", Code::kUnavailable, Trouble::kWrites,
       "the server cannot persist and takes no writes (MISCONF)"},
      {"READONLY", Code::kUnavailable, Trouble::kWrites, "the server is a replica (READONLY)"},
      {"NOREPLICAS", Code::kUnavailable, Trouble::kWrites,
       "the server has too few good replicas to take writes (NOREPLICAS)"},
      {"LOADING", Code::kUnavailable, Trouble::kReads,
       "the server is loading its data set (LOADING)"},
      {"BUSY", Code::kUnavailable, Trouble::kReads, "the server is busy with a script (BUSY)"},
      {"MASTERDOWN", Code::kUnavailable, Trouble::kReads,
       "the server is a replica without its master (MASTERDOWN)"},
      {"CLUSTERDOWN", Code::kUnavailable, Trouble::kReads,
       "the server's cluster is down (CLUSTERDOWN)"},
      {"NOAUTH", Code::kPermissionDenied, Trouble::kDenied, "the server wants a password (NOAUTH)"},
      {"WRONGPASS", Code::kPermissionDenied, Trouble::kDenied,
       "the server refuses user or password (WRONGPASS)"},
      {"DENIED", Code::kPermissionDenied, Trouble::kDenied,
       "the server is in protected mode and takes local clients alone (DENIED)"},
      {"NOPERM", Code::kPermissionDenied, Trouble::kForbidden,
       "the user may not run a command that Larder needs, or not on its keys (NOPERM)"},
      {"NOPROTO", Code::kUnsupported, Trouble::kWrongMode,
       "the server does not speak RESP2 (NOPROTO)"},
      {"MOVED", Code::kFailedPrecondition, Trouble::kWrongMode,
       "the server is a node of a Cluster (MOVED)"},
      {"ASK", Code::kFailedPrecondition, Trouble::kWrongMode,
       "the server is a node of a Cluster (ASK)"},
      {"CROSSSLOT", Code::kFailedPrecondition, Trouble::kWrongMode,
       "the server is a node of a Cluster (CROSSSLOT)"},
      {"TRYAGAIN", Code::kUnavailable, Trouble::kNone, "the server says TRYAGAIN"},
      {"WRONGTYPE", Code::kDataLoss, Trouble::kNone,
       "a value of another type under the key (WRONGTYPE)"},
  }};
  // A value longer than proto-max-bulk-len: Redis replies with this error and closes the
  // connection.
  static constexpr ErrorMeaning kTooLong{
      "ERR", Code::kUnavailable, Trouble::kNone,
      "the server takes no value of this length (proto-max-bulk-len)"};
  static constexpr ErrorMeaning kOther{"", Code::kUnavailable, Trouble::kNone,
                                       "the server answered with an error"};
  const std::string_view word = reply.substr(0, reply.find(' '));
  for (const ErrorMeaning& meaning : kMeanings)
    if (meaning.code == word) return meaning;
  return reply.starts_with("ERR Protocol error: invalid bulk length") ? kTooLong : kOther;
}

// Whether this reply to a put means that the server refuses this chunk and other chunks of its size
// for now. A server that refuses all writes is probed with a short write instead.
inline bool refuses_chunk(const ErrorMeaning& meaning) {
  return meaning.code.empty() || meaning.code == "ERR" || meaning.code == "OOM" ||
         meaning.code == "NOPERM";
}

inline Status status_of(const ErrorMeaning& meaning) {
  return {meaning.status, std::string(meaning.text)};
}

}  // namespace larder::remote
