#include "operator/webhook/inject/shell_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "operator/webhook/inject/compound_commands.h"

namespace larder::webhook {
namespace {

// Words before a command. In the place of a command they are keywords.
constexpr std::array<std::string_view, 14> kReserved{"if", "then", "else",  "elif",  "fi",
                                                     "do", "done", "while", "until", "{",
                                                     "}",  "!",    "in",    "esac"};

bool is_name_character(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_descriptor(std::string_view word) {
  if (word.size() > 2 && word.starts_with('{') && word.ends_with('}'))
    return !is_digit(word[1]) &&
           std::ranges::all_of(word.substr(1, word.size() - 2), is_name_character);
  return !word.empty() && std::ranges::all_of(word, is_digit);
}

// A here-document is data of its command, and lines in it are no commands.
struct HereDocument {
  std::string end;
  bool tabs = false;  // <<-: leading tabs are ignored
};

class ShellReader {
 public:
  explicit ShellReader(const ShellText& text) : text_(text) {}

  Result<std::vector<ShellCommand>> read() {
    if (text_.size() > kMostShellText) return Status(Code::kOutOfRange, "the text is too long");
    // Each step() moves at_ forward: read_word() moves at least one cell.
    while (wrong_.empty() && at_ < text_.size()) step();
    end_command();
    if (!wrong_.empty()) return Status(deep_ ? Code::kOutOfRange : Code::kInvalidArgument, wrong_);
    return std::move(commands_);
  }

 private:
  // The character; 0 beyond the end and for an unknown cell.
  // Unknown cells give 0, which equals no character of the syntax: an expansion cannot open a
  // quote.
  char look(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() && !text_[at_ + ahead].unknown ? text_[at_ + ahead].c : '\0';
  }
  bool unknown() const { return at_ < text_.size() && text_[at_].unknown; }
  void fail(const char* why) {
    if (wrong_.empty()) wrong_ = why;
    at_ = text_.size();
  }

  // The order of the cases matters: "&>" is a redirection and "&" an operator, "<(" is a word and
  // "<" a redirection.
  void step() {
    const char c = look();
    if (unknown()) return take_word();
    if (c == ' ' || c == '\t') {
      ++at_;
    } else if (c == '\\' && look(1) == '\n') {
      at_ += 2;
    } else if (c == '#') {
      skip_line();
    } else if (c == '\n') {
      if (!command_.words.empty()) end_command(), compounds_.end_line();
      ++at_;
      skip_here_documents();
    } else if (c == '&' && look(1) == '>') {
      ++at_;
      redirect();
    } else if ((c == '<' || c == '>') && look(1) == '(') {
      take_word();  // <(command): a word
    } else if (c == '<' || c == '>') {
      redirect();
    } else if (c == '(' && look(1) == '(' && command_.words.empty()) {
      // ((i++)) is arithmetic: < and > in it are no redirections.
      skip_parentheses();  // ((arithmetic))
    } else if (std::string_view(";&|()").find(c) != std::string_view::npos && c != '\0') {
      take_operator(c);
    } else {
      take_word();
    }
  }

  void end_command() {
    if (command_.words.empty()) return;
    command_.certain = compounds_.is_certain();
    commands_.push_back(std::exchange(command_, {}));
  }

  // ; & | ( )
  // A "(" after one word defines a function: `name() {`.
  void take_operator(char c) {
    const bool named = !command_.words.empty() && command_.words[0].literal() == "function";
    if (named && c == '(') command_.words.erase(command_.words.begin());
    command_.function = c == '(' && look(1) == ')' && command_.words.size() == 1;
    const bool twice = (c == '&' || c == '|') && look(1) == c;
    if (c == '|' && !twice) compounds_.join();  // the left side of a pipe is a subshell, too
    end_command();
    compounds_.take_operator(c, twice);
    at_ += twice ? 2 : 1;
  }

  // `function name {`: the first command of the body follows.
  // Bash's second form of a definition, with and without parentheses.
  bool begins_function(std::string_view word) {
    if (word != "{" || command_.words.size() != 2 || command_.words[0].literal() != "function")
      return false;
    command_.words.erase(command_.words.begin());
    command_.function = true;
    end_command();
    compounds_.take_word(word);
    return true;
  }

  void take_word() {
    ShellWord word = read_word();
    if (!wrong_.empty()) return;
    const bool bare = std::ranges::all_of(
        word.meaning, [](const Cell& cell) { return cell.quotes == Quotes::kNone; });
    const auto text = word.literal();
    // The 2 of 2>&1 and the {log} of {log}>file are descriptors and no words.
    if (bare && text && is_descriptor(*text) && (look() == '<' || look() == '>')) return;
    if (bare && text && command_.words.empty()) {
      compounds_.take_word(*text);
      if (std::ranges::find(kReserved, *text) != kReserved.end()) return;
    }
    if (bare && text && begins_function(*text)) return;
    command_.words.push_back(std::move(word));
  }

  // <<END begins a here-document; <<< takes one word.
  void redirect() {
    const char c = look();
    ++at_;
    if (c == '<' && look() == '<' && look(1) != '<') {
      ++at_;
      HereDocument document;
      if (look() == '-') document.tabs = true, ++at_;
      skip_blanks();
      document.end = read_word().literal().value_or("");
      // More here-documents than the bound are not skipped, so their lines are read as commands. No
      // real script has so many in one line.
      if (here_documents_.size() < kMostShellNesting)
        here_documents_.push_back(std::move(document));
      return;
    }
    while (look() != '\0' && std::string_view("<>&|").find(look()) != std::string_view::npos) ++at_;
    skip_blanks();
    if (at_ < text_.size() && look() != '\n') read_word();
  }

  void skip_blanks() {
    while (look() == ' ' || look() == '\t' || (look() == '\\' && look(1) == '\n'))
      at_ += look() == '\\' ? 2 : 1;
  }

  // The bodies follow after the line, in the order of their redirections.
  void skip_here_documents() {
    for (const HereDocument& document : std::exchange(here_documents_, {})) {
      while (at_ < text_.size()) {
        std::string line;
        while (at_ < text_.size() && look() != '\n') line += look(), ++at_;
        if (at_ < text_.size()) ++at_;
        if (document.tabs) line.erase(0, line.find_first_not_of('\t'));
        if (line == document.end) break;
      }
    }
  }

  // ---- words

  // A word ends at an unquoted blank or operator. Quotes and expansions are pieces of it: a"b"$c is
  // one word.
  ShellWord read_word() {
    ShellWord word;
    word.begin = at_;
    while (wrong_.empty() && at_ < text_.size()) {
      const char c = look();
      if (unknown()) {
        word.many = true;
        take(word, 1, Quotes::kNone, true);
      } else if ((c == '<' || c == '>') && look(1) == '(' && at_ == word.begin) {
        take_skipped(word, Quotes::kNone, 1);
      } else if (c == '(' && begins_array(word)) {
        take_array(word);
        break;
      } else if (c != '\0' && std::string_view(" \t\n;&|()<>").find(c) != std::string_view::npos) {
        break;
      } else {
        take_piece(word, c);
      }
    }
    word.end = std::min(at_, text_.size());
    if (word.end == word.begin && wrong_.empty()) ++at_;  // no word here: still make progress
    return word;
  }

  // NAME=( or NAME+=(.
  // `a=(` is an array only as NAME=(; in other places ( is an operator.
  bool begins_array(const ShellWord& word) const {
    if (in_array_ || word.meaning.size() < 2 || word.meaning.back().c != '=') return false;
    const std::size_t name =
        word.meaning.size() - (word.meaning[word.meaning.size() - 2].c == '+' ? 2 : 1);
    return name > 0 && std::all_of(word.meaning.begin(),
                                   word.meaning.begin() + static_cast<std::ptrdiff_t>(name),
                                   [](const Cell& cell) {
                                     return is_name_character(cell.c) &&
                                            cell.quotes == Quotes::kNone;
                                   });
  }

  // Newlines and comments are allowed between elements.
  void take_array(ShellWord& word) {
    word.array = in_array_ = true;
    ++at_;
    while (wrong_.empty() && at_ < text_.size() && look() != ')') {
      const char c = look();
      if (c == ' ' || c == '\t' || c == '\n')
        ++at_;
      else if (c == '#')
        while (at_ < text_.size() && look() != '\n') ++at_;
      else if (c == '\\' && look(1) == '\n')
        at_ += 2;
      else
        word.elements.push_back(read_word());
    }
    in_array_ = false;
    if (at_ >= text_.size()) return fail("a ( of an array is not closed");
    ++at_;
  }

  // Outside of quotes a backslash escapes any character; before a newline it continues the line.
  void take_piece(ShellWord& word, char c) {
    if (c == '\\' && look(1) == '\n') {
      at_ += 2;
    } else if (c == '\\' && at_ + 1 < text_.size()) {
      take_escaped(word, Quotes::kNone);
    } else if (c == '\'') {
      take_single(word);
    } else if (c == '"') {
      take_double(word);
    } else if (c == '$') {
      take_dollar(word, Quotes::kNone);
    } else if (c == '`') {
      take_backticks(word, Quotes::kNone);
    } else {
      take(word, 1, Quotes::kNone, false);
    }
  }

  // Takes `count` cells with the meaning of the last one, or with an unknown meaning.
  // The origin of the cell covers the backslash as well, so an edit replaces both.
  void take(ShellWord& word, std::size_t count, Quotes quotes, bool is_unknown) {
    const std::size_t last = at_ + count - 1;
    word.meaning.push_back({is_unknown ? '\0' : text_[last].c, is_unknown || text_[last].unknown,
                            quotes, at_, at_ + count});
    at_ += count;
  }
  void take_escaped(ShellWord& word, Quotes quotes) { take(word, 2, quotes, false); }

  // Single quotes have no escapes.
  void take_single(ShellWord& word) {
    ++at_;
    while (at_ < text_.size() && look() != '\'') take(word, 1, Quotes::kSingle, false);
    if (at_ >= text_.size()) return fail("a ' is not closed");
    ++at_;
  }

  // In double quotes a backslash escapes only \ " $ ` and the newline (POSIX 2.2.3).
  void take_double(ShellWord& word) {
    ++at_;
    while (at_ < text_.size() && look() != '"') {
      const char c = look();
      if (c == '\\' && look(1) == '\n')
        at_ += 2;
      else if (c == '\\' && look(1) != '\0' &&
               std::string_view("\\\"$`").find(look(1)) != std::string_view::npos)
        take_escaped(word, Quotes::kDouble);
      else if (c == '$')
        take_dollar(word, Quotes::kDouble);
      else if (c == '`')
        take_backticks(word, Quotes::kDouble);
      else
        take(word, 1, Quotes::kDouble, false);
    }
    if (wrong_.empty() && at_ >= text_.size()) return fail("a \" is not closed");
    ++at_;
  }

  // Reads from `$`. Kubernetes replaces $$ by $ before a shell reads the text.
  void take_dollar(ShellWord& word, Quotes quotes) {
    if (look(1) == '$' && look(2) == '(')
      return take(word, 1, quotes, true), take_dollar(word, quotes);
    if (names_by_value(word, quotes)) return;
    const char c = look(1);
    if (c == '(' || c == '{') {
      const std::size_t from = at_;
      take_skipped(word, quotes, 1);
      word.many = word.many || quotes == Quotes::kNone || (c == '{' && gives_several(from));
      return;
    }
    if (c == '\'' && quotes == Quotes::kNone) return take_ansi(word);
    if (c == '"' && quotes == Quotes::kNone) return static_cast<void>(++at_);
    // $12 is $1 and the text 2: digits take one character.
    std::size_t count = 1;
    while (is_name_character(look(count)) && !is_digit(c)) ++count;
    if (count == 1 && c != '\0' &&
        (is_digit(c) || std::string_view("@*#?-!$").find(c) != std::string_view::npos))
      count = 2;
    if (count == 1) return take(word, 1, quotes, false);
    word.many = word.many || quotes == Quotes::kNone || c == '@';
    take(word, count, quotes, true);
  }

  // Takes `$` and an expansion, whose value names the variable: the text of eval "X=\$$N", and $$X
  // in args of Kubernetes. The two are one expansion, which nobody can read.
  bool names_by_value(ShellWord& word, Quotes quotes) {
    const bool spliced = at_ + 1 < text_.size() && text_[at_ + 1].unknown;
    const bool escaped = look(1) == '$' && (is_name_character(look(2)) || look(2) == '{');
    if (!spliced && !escaped) return false;
    word.many = true;
    if (spliced) return take(word, 2, quotes, true), true;
    const std::size_t from = at_++;
    take_dollar(word, quotes);
    if (wrong_.empty()) word.meaning.back().begin = from;
    return true;
  }

  // Whether the expansion from `from` to at_ may give several words inside quotes: ${A[@]}, ${@:2},
  // ${1+"$@"}, and ${!X}, where X may be "A[@]".
  bool gives_several(std::size_t from) const {
    std::string text;
    for (std::size_t at = from; at < std::min(at_, text_.size()); ++at) {
      if (text_[at].unknown) return true;
      text += text_[at].c;
    }
    return text.starts_with("${!") || text.find("[@]") != std::string::npos ||
           text.find("$@") != std::string::npos || text.find("${@") != std::string::npos;
  }

  // $'...': escapes are not decoded.
  // Bash decodes \n and the like; other shells keep them.
  void take_ansi(ShellWord& word) {
    const std::size_t from = at_;
    at_ += 2;
    while (at_ < text_.size() && look() != '\'') at_ += look() == '\\' ? 2 : 1;
    take_from(word, from, Quotes::kNone, "a $' is not closed");
  }

  // Backticks are skipped without reading their commands.
  void take_backticks(ShellWord& word, Quotes quotes) {
    word.many = word.many || quotes == Quotes::kNone;
    const std::size_t from = at_;
    ++at_;
    while (at_ < text_.size() && look() != '`') at_ += look() == '\\' ? 2 : 1;
    take_from(word, from, quotes, "a ` is not closed");
  }

  // Takes the cells through the closing cell at at_ as one unknown cell.
  void take_from(ShellWord& word, std::size_t from, Quotes quotes, const char* open) {
    if (at_ >= text_.size()) return fail(open);
    ++at_;
    word.meaning.push_back({'\0', true, quotes, from, at_});
  }

  // Skips `ahead` cells and the parentheses or braces that open there.
  void take_skipped(ShellWord& word, Quotes quotes, std::size_t ahead) {
    const std::size_t from = at_;
    at_ += ahead;
    const bool outer = std::exchange(in_double_, quotes == Quotes::kDouble);
    skip_parentheses();
    in_double_ = outer;
    if (wrong_.empty()) word.meaning.push_back({'\0', true, quotes, from, at_});
  }

  // ---- skipped text

  // Skips from ( or { to its end, including quoted text.
  // Recursion for nested $(...) and ${...}; kMostShellNesting keeps the stack bounded.
  void skip_parentheses() {
    if (++nesting_ > kMostShellNesting) {
      deep_ = true;
      return fail("the text is nested too deeply");
    }
    const char open = look(), close = open == '(' ? ')' : '}';
    const bool outer =
        std::exchange(in_double_, in_double_ && open == '{');  // in "${...}" a ' is literal
    // ${...} and ((...)) hold no commands: # is an operator there, and << a shift.
    const bool commands = open == '(' && look(1) != '(';
    std::vector<HereDocument> documents = std::exchange(here_documents_, {});
    std::vector<int> cases;  // the depth of each open `case`
    int depth = 0;
    while (at_ < text_.size()) {
      if (skip_piece(commands)) continue;
      if (commands) take_case(cases, depth);
      const char c = look();
      if (c == open) ++depth;
      // The ) of a pattern closes no (.
      if (c == close && (cases.empty() || cases.back() != depth)) --depth;
      ++at_;
      if (depth == 0) break;
    }
    here_documents_ = std::move(documents);
    in_double_ = outer;
    --nesting_;
    if (depth != 0) fail("a parenthesis or brace is not closed");
  }

  // Skips a quoted text, an expansion, a comment or a here-document; false: there is none here.
  // Quotes inside a comment or a here-document open nothing: $( # don't
  bool skip_piece(bool commands) {
    const char c = look();
    if (c == '\\') return at_ += 2, true;
    if (c == '$' && look(1) == '\'' && !in_double_) return ++at_, skip_escaped('\''), true;
    if (c == '\'' && !in_double_) return skip_to('\''), ++at_, true;
    if (c == '"') return skip_double(), ++at_, true;
    if (c == '`') return skip_escaped('`'), true;
    if (c == '$' && (look(1) == '(' || look(1) == '{')) {
      ++at_;
      skip_parentheses();
      word_goes_on_ = at_;
      return true;
    }
    if (!commands) return false;
    if (c == '#' && begins_word()) return skip_line(), true;
    if (c == '<' && look(1) == '<') {
      if (look(2) == '<') return at_ += 3, true;
      return redirect(), true;
    }
    if (c == '\n') return ++at_, skip_here_documents(), true;
    return false;
  }

  void take_case(std::vector<int>& cases, int depth) const {
    if (is_command("case")) cases.push_back(depth);
    if (is_command("esac") && !cases.empty()) cases.pop_back();
  }

  static bool is_between_words(char c) {
    return std::string_view(" \t\n;&|()").find(c) != std::string::npos;
  }

  // Whether a word can begin here. The ) of an expansion ends no word: $(nproc)#x
  bool begins_word() const {
    return at_ == 0 || (at_ != word_goes_on_ && is_between_words(text_[at_ - 1].c));
  }

  // Whether `word` stands here in the place of a command.
  bool is_command(std::string_view word) const {
    for (std::size_t at = 0; at < word.size(); ++at)
      if (look(at) != word[at]) return false;
    const bool ends = at_ + word.size() == text_.size() || is_between_words(look(word.size()));
    if (!begins_word() || !ends) return false;
    std::size_t before = at_;
    while (before > 0 && (text_[before - 1].c == ' ' || text_[before - 1].c == '\t')) --before;
    if (before == 0 || std::string_view("\n;&|()").find(text_[before - 1].c) != std::string::npos)
      return true;
    std::string reserved;  // `then case`, `{ case`
    for (; before > 0 && reserved.size() <= 5 && text_[before - 1].c > ' '; --before)
      reserved.insert(reserved.begin(), text_[before - 1].c);
    return reserved != "in" && std::ranges::find(kReserved, reserved) != kReserved.end();
  }

  void skip_line() {
    while (at_ < text_.size() && look() != '\n') ++at_;
  }

  void skip_to(char close) {
    ++at_;
    while (at_ < text_.size() && look() != close) ++at_;
  }

  // Skips from a quote to its end, over escaped characters.
  void skip_escaped(char close) {
    ++at_;
    while (at_ < text_.size() && look() != close) at_ += look() == '\\' ? 2 : 1;
    ++at_;
  }

  // Inside "..." only $(, ${ and ` nest.
  void skip_double() {
    const bool outer = std::exchange(in_double_, true);
    ++at_;
    while (at_ < text_.size() && look() != '"') {
      if (look() == '$' && (look(1) == '(' || look(1) == '{')) {
        ++at_;
        skip_parentheses();
      } else if (look() == '`') {
        skip_escaped('`');
      } else {
        at_ += look() == '\\' ? 2 : 1;
      }
    }
    in_double_ = outer;
  }

  const ShellText& text_;
  std::size_t at_ = 0;
  std::size_t word_goes_on_ = std::string::npos;  // right behind an expansion
  std::vector<ShellCommand> commands_;
  ShellCommand command_;  // the current command
  std::vector<HereDocument> here_documents_;
  CompoundCommands compounds_;
  int nesting_ = 0;
  bool in_double_ = false, in_array_ = false, deep_ = false;
  std::string wrong_;
};

}  // namespace

Result<std::vector<ShellCommand>> read_shell(const ShellText& text) {
  return ShellReader(text).read();
}

}  // namespace larder::webhook
