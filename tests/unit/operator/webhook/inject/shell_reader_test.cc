#include "operator/webhook/inject/shell_reader.h"

#include <gmock/gmock.h>

namespace larder::webhook {
namespace {

using Commands = std::vector<std::vector<std::string>>;

// Each command's words; "?" for a word that an expansion decides, "*" behind a word that may be
// several.
Commands commands_in(std::string_view script) {
  const auto read = read_shell(shell_text(script));
  if (!read.ok()) return {{"refused", read.status().text()}};
  Commands all;
  for (const ShellCommand& command : *read) {
    all.emplace_back();
    for (const ShellWord& word : command.words)
      all.back().push_back(word.literal().value_or("?") + (word.many ? "*" : ""));
  }
  return all;
}

TEST(ShellReader, SplitsCommands) {
  EXPECT_EQ(commands_in("a b; c && d||e |f & g\nh"),
            (Commands{{"a", "b"}, {"c"}, {"d"}, {"e"}, {"f"}, {"g"}, {"h"}}));
  EXPECT_EQ(commands_in("if a; then b; else c; fi"), (Commands{{"a"}, {"b"}, {"c"}}));
  EXPECT_EQ(commands_in("while ! a; do { b; }; done"), (Commands{{"a"}, {"b"}}));
  EXPECT_EQ(commands_in("echo then fi"), (Commands{{"echo", "then", "fi"}}))
      << "reserved only where a command begins";
  EXPECT_EQ(commands_in("'if' a"), (Commands{{"if", "a"}}));
}

TEST(ShellReader, RemovesQuotes) {
  EXPECT_EQ(commands_in(R"(a 'b c' "d e" f\ g h'i'"j" '')"),
            (Commands{{"a", "b c", "d e", "f g", "hij", ""}}));
  EXPECT_EQ(commands_in(R"("a\"b\\c\d" 'e\f')"), (Commands{{"a\"b\\c\\d", "e\\f"}}));
  EXPECT_EQ(commands_in("a \\\n b\\\nc"), (Commands{{"a", "bc"}}));
}

TEST(ShellReader, MarksUnknownExpansions) {
  EXPECT_EQ(commands_in(R"X($a ${b:-"x y"} $(c "d)" ')') `e` $1x)X"),
            (Commands{{"?*", "?*", "?*", "?*", "?*"}}));
  EXPECT_EQ(commands_in(R"X("$a" "${b}" "$(c)" "$@" "${x[@]}")X"),
            (Commands{{"?", "?", "?", "?*", "?*"}}));
  EXPECT_EQ(commands_in(R"X(a$ "$" $'x\'y')X"), (Commands{{"a$", "$", "?"}}));
  EXPECT_EQ(commands_in(R"X("${a:-it's}" b)X"), (Commands{{"?", "b"}}));
}

TEST(ShellReader, SkipsRedirections) {
  EXPECT_EQ(commands_in("a >b 2>&1 c <d >>e &>f <<<g"), (Commands{{"a", "c"}}));
  EXPECT_EQ(commands_in("a 2 > b"), (Commands{{"a", "2"}}));
  EXPECT_EQ(commands_in("a > >(tee b)"), (Commands{{"a"}}));
  EXPECT_EQ(commands_in("a <(b)"), (Commands{{"a", "?"}}));
}

TEST(ShellReader, SkipsCommentsAndHereDocuments) {
  EXPECT_EQ(commands_in("a # b 'c\nd#e"), (Commands{{"a"}, {"d#e"}}));
  EXPECT_EQ(commands_in("a <<X b\nno 'quote\nX\nc"), (Commands{{"a", "b"}, {"c"}}));
  EXPECT_EQ(commands_in("a <<-'X'\n\tno\n\tX\nc"), (Commands{{"a"}, {"c"}}));
  EXPECT_EQ(commands_in("a <<X\nnever closed"), (Commands{{"a"}}));
}

// Quotes and parentheses of comments, here-documents and patterns inside $(...) open and close
// nothing.
// covers F-436
TEST(ShellReader, SkipsCommandsInsideSubstitutions) {
  const Commands both{{"?*"}, {"b"}};
  EXPECT_EQ(commands_in("a=$(\n # don't\n c\n)\nb"), both);
  EXPECT_EQ(commands_in("a=\"$(c # \"\n)\"\nb"), (Commands{{"?"}, {"b"}}));
  EXPECT_EQ(commands_in("a=$(c#d)\nb"), both);
  EXPECT_EQ(commands_in("a=$(cat <<E\nit's ) (\nE\n)\nb"), both);
  EXPECT_EQ(commands_in("a=$(cat <<-'E'\n\t\"\n\tE\n)\nb"), both);
  EXPECT_EQ(commands_in("a=$(cat <<< c)\nb"), both);
  EXPECT_EQ(commands_in("a=$((1 << 2))\nb"), both);
  EXPECT_EQ(commands_in("a=$(case c in d) e;; (f) g;; *) h;; esac)\nb"), both);
  EXPECT_EQ(commands_in("a=$(if c; then case d in e) (f);; esac; fi)\nb"), both);
  EXPECT_EQ(commands_in("a=$(echo case)\nb"), both);
  EXPECT_EQ(commands_in("a=$(case=1 c)\nb"), both);
  EXPECT_EQ(commands_in("a=$(case-tool c)\nb"), both);
  EXPECT_EQ(commands_in("a=$(c $(d)#e)\nb"), both) << "no comment";
  EXPECT_EQ(commands_in(R"X(a=$(c $'it\'s')
b)X"),
            both);
  EXPECT_EQ(commands_in(R"X(a=$(c "`d "e)"`")
b)X"),
            both);
  EXPECT_EQ(commands_in("a <(\n# it's\nc) d"), (Commands{{"a", "?", "d"}}));
  EXPECT_EQ(commands_in("a {log}> b"), (Commands{{"a"}})) << "a descriptor";
}

std::vector<std::string> elements_in(std::string_view script) {
  const auto read = read_shell(shell_text(script));
  std::vector<std::string> all;
  for (const ShellCommand& command : *read)
    for (const ShellWord& word : command.words) {
      if (word.array) all.push_back(word.known());
      for (const ShellWord& element : word.elements) all.push_back(element.literal().value_or("?"));
    }
  return all;
}

TEST(ShellReader, ReadsArrays) {
  using testing::ElementsAre;
  EXPECT_THAT(elements_in("a=(b 'c d' $e)"), ElementsAre("a=", "b", "c d", "?"));
  EXPECT_THAT(elements_in("a+=(\n b # it's\n c \\\n d\n)"), ElementsAre("a+=", "b", "c", "d"));
  EXPECT_THAT(elements_in("declare -a a=() b=(c)"), ElementsAre("a=", "b=", "c"));
  EXPECT_THAT(elements_in("a (b); (a=b)"), ElementsAre()) << "subshells";
  EXPECT_EQ(commands_in("a=(b c) d"), (Commands{{"?", "d"}}));
  EXPECT_EQ(commands_in("a=(b")[0][0], "refused");
}

// Which commands are run for certain, by their first word.
std::string certain_in(std::string_view script) {
  const auto read = read_shell(shell_text(script));
  std::string all;
  for (const ShellCommand& command : *read)
    if (command.certain) all += command.words.front().known() + " ";
  return all;
}

TEST(ShellReader, FindsCommandsThatAlwaysRun) {
  EXPECT_EQ(certain_in("a; b && c\nd || e; f | g; h"), "a b d h ");
  EXPECT_EQ(certain_in("a\nif b; then c; else d; fi\ne"), "a e ");
  EXPECT_EQ(certain_in("while a; do b; done; for c in d; do e; done; f"), "f ");
  EXPECT_EQ(certain_in("case a in b) c;; (d) e;; esac; f"), "f ");
  EXPECT_EQ(certain_in("(a; b); { c; }; d"), "d ");
  EXPECT_EQ(certain_in("f() { a; }; function g { b; }; function h() { c; }; d"), "f g h d ")
      << "f, g and h are names of functions";
  EXPECT_EQ(certain_in("a &&\n b\nc"), "a c ");
}

TEST(ShellReader, RefusesUnclosedSyntax) {
  for (const char* script : {"a 'b", "a \"b", "a $(b", "a ${b", "a `b"})
    EXPECT_THAT(commands_in(script),
                testing::ElementsAre(testing::ElementsAre("refused", testing::HasSubstr("closed"))))
        << script;
}

TEST(ShellReader, BoundsLengthAndDepth) {
  EXPECT_EQ(read_shell(shell_text(std::string(kMostShellText + 1, 'a'))).status().code(),
            Code::kOutOfRange);
  std::string deep;
  for (int depth = 0; depth < 100'000; ++depth) deep += "$(";
  EXPECT_EQ(read_shell(shell_text(deep)).status().code(), Code::kOutOfRange);
}

TEST(ShellText, QuotesForEveryContext) {
  EXPECT_EQ(shell_quoted("it's"), R"('it'\''s')");
  EXPECT_EQ(shell_encoded(R"(a"b$c`d\)", Quotes::kDouble), R"(a\"b\$c\`d\\)");
  EXPECT_EQ(shell_encoded("a'b", Quotes::kSingle), R"(a'\''b)");
}

}  // namespace
}  // namespace larder::webhook
