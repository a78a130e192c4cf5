#include "operator/webhook/inject/shell_expansion.h"

#include <algorithm>
#include <cctype>

namespace larder::webhook {
namespace {

using ExpansionKind = Expansion::Kind;

// POSIX: letters, digits and _, not beginning with a digit.
bool is_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// X, 1, @, ? and the like.
// $? $$ $# $- and $! are numbers or letters and never a flag.
Expansion parameter(std::string name, std::string rest) {
  if (is_name(name)) return {ExpansionKind::kVariable, std::move(name), std::move(rest)};
  if (name == "@" || name == "*" ||
      (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0))
    return {ExpansionKind::kPositional, "", std::move(rest)};
  return {ExpansionKind::kHarmless, "", std::move(rest)};
}

// The expansion inside ${...}.
// ${!X} is the variable that X names; ${#X} is a length.
Expansion braced(std::string_view inside) {
  if (inside.starts_with('!')) return {ExpansionKind::kUnknown, "", ""};
  if (inside.starts_with('#') && inside.size() > 1) return {ExpansionKind::kHarmless, "", ""};
  std::size_t end = 0;
  while (end < inside.size() &&
         (std::isalnum(static_cast<unsigned char>(inside[end])) != 0 || inside[end] == '_'))
    ++end;
  // ${@:2}, ${1:-x}: the name is one character that is no letter.
  if (end == 0) end = std::min<std::size_t>(1, inside.size());
  return parameter(std::string(inside.substr(0, end)), std::string(inside.substr(end)));
}

}  // namespace

bool names_by_value(std::string_view text) {
  for (const std::string_view form : {"$$", "${$"})
    for (std::size_t at = text.find(form); at != std::string_view::npos;
         at = text.find(form, at + 1)) {
      const std::size_t next = at + form.size();
      if (next < text.size() && (text[next] == '{' || is_name(text.substr(next, 1)))) return true;
    }
  return false;
}

Expansion expansion_of(std::string_view written) {
  // "$$N", "$$(cmd)", "${$N}": see names_by_value(). "$$" and "${$}" are the number of the process.
  for (const std::string_view form : {"$$", "$`", "${$", "${`"})
    if (written.starts_with(form) && written.size() > form.size() &&
        written.substr(form.size()) != "}")
      return {ExpansionKind::kUnknown, "", ""};
  if (written.starts_with("<(") || written.starts_with(">(") || written.starts_with("$(("))
    return {ExpansionKind::kHarmless, "", ""};
  if (written.starts_with("${") && written.size() > 2)
    return braced(written.substr(2, written.size() - 3));
  // $'a\tb': escapes are not decoded, so a text with a backslash is unknown.
  if (written.starts_with("$'"))
    return {written.find('\\') == std::string_view::npos ? ExpansionKind::kHarmless
                                                         : ExpansionKind::kUnknown,
            "", std::string(written.substr(1))};
  if (written == "$") return {ExpansionKind::kHarmless, "", ""};
  if (written.starts_with("$(") && written.size() > 2) {
    // "$(NAME)" is Kubernetes' form too. Longer texts, "$(cat f)", are commands of the shell.
    const std::string_view inside = written.substr(2, written.size() - 3);
    return is_name(inside) ? Expansion{ExpansionKind::kKubernetes, std::string(inside), ""}
                           : Expansion{ExpansionKind::kUnknown, "", ""};
  }
  if (written.starts_with('$') && written.size() > 1)
    return parameter(std::string(written.substr(1)), "");
  return {ExpansionKind::kUnknown, "", ""};
}

}  // namespace larder::webhook
