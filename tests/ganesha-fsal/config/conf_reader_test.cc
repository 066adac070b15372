#include "ganesha-fsal/config/conf_reader.h"

#include <spdlog/fmt/fmt.h>

#include <catch2/catch_test_macros.hpp>
#include <map>

namespace weft::mds {
namespace {

Result<ConfBlock> parse(std::string_view text, std::map<std::string, std::string> files = {}) {
  return parse_conf(text, "/etc/g.conf", [&](const std::string& path) -> Result<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return fail(Errc::kNotFound, path);
    return found->second;
  });
}

std::string error_of(std::string_view text) {
  const auto parsed = parse(text);
  return parsed ? "" : parsed.error().text;
}

TEST_CASE("blocks, statements and what they have for values") {
  const auto conf = parse(R"(# a comment
EXPORT {
  Path = "/a;b#c"; Pseudo = '/x\'; # more
  Protocols = 3,4 ,	9p;
  Empty = ;
  Number = -5; Other = ~ 7;
  CLIENT { Clients = 192.0.2.0/26, *; }
}
Other_Block { }
)");
  REQUIRE(conf);
  REQUIRE(conf->blocks.size() == 2);
  const ConfBlock& block = conf->blocks[0];
  CHECK(block.name == "EXPORT");
  CHECK(block.place.line == 2);
  REQUIRE(block.statements.size() == 6);
  CHECK(block.statements[0].terms[0].text == "/a;b#c");
  CHECK(block.statements[0].terms[0].quoted);
  CHECK(block.statements[1].terms[0].text == "/x\\");
  CHECK(block.statements[2].place.line == 4);
  REQUIRE(block.statements[2].terms.size() == 3);
  CHECK(block.statements[2].terms[2].text == "9p");
  CHECK(block.statements[3].terms.empty());
  CHECK(block.statements[4].terms[0].text == "-5");
  CHECK(block.statements[5].terms[0].text == "~7");
  REQUIRE(block.blocks.size() == 1);
  CHECK(block.blocks[0].statements[0].terms[0].text == "192.0.2.0/26");
}

TEST_CASE("an included file is a part of the whole, with its own lines") {
  const auto conf =
      parse("%include \"sub/b.conf\"\nA { x = 1; }\n",
            {{"/etc/sub/b.conf", "\nB {\n y = 2; }\n%include c.conf"}, {"/etc/c.conf", "C { }"}});
  REQUIRE(conf);
  REQUIRE(conf->blocks.size() == 3);
  CHECK(conf->blocks[0].statements[0].place.file == "/etc/sub/b.conf");
  CHECK(conf->blocks[0].statements[0].place.line == 3);
  CHECK(conf->blocks[2].place.file == "/etc/g.conf");
  CHECK(parse("%dir conf.d\n%url rados://a/b\nA { }")->blocks.size() == 1);
}

TEST_CASE("a number with a unit and without quotes is named with what may stand there") {
  const auto of = [](std::string_view said, std::string_view with_unit) {
    return fmt::format(
        "/etc/g.conf:2: x = {}: Ganesha takes a number without a unit, of time in "
        "seconds; FSAL WEFT takes \"{}\", in quotes",
        said, with_unit);
  };
  CHECK(error_of("A {\n x = 60 s; }") == of("60 s", "60 s"));
  CHECK(error_of("A {\n x = 60s; }") == of("60s", "60s"));
  CHECK(error_of("A {\n x = 1, 64  KiB ; }") == of("64 KiB", "64 KiB"));
  CHECK(error_of("A {\n x = 1.5GiB; }") == of("1.5GiB", "1.5GiB"));
  // A semicolon that is missing is no unit.
  CHECK(error_of("A {\n x = 60\n y = 5; }") == "/etc/g.conf:3: ',' or ';' expected, not 'y'");
  CHECK(error_of("A { x = 9P, 0x1F, 017, 152.152, 20a1::1, 3c.example, \"60 s\"; }") == "");
}

TEST_CASE("what is wrong is said with file and line") {
  CHECK(error_of("A {\n x = 1\n}") == "/etc/g.conf:3: ',' or ';' expected, not '}'");
  CHECK(error_of("\nA {\n x = 1;") == "/etc/g.conf:2: the block A does not end");
  CHECK(error_of("A x") == "/etc/g.conf:1: '=' or '{' expected, not 'x'");
  CHECK(error_of("A { x = \"a") == "/etc/g.conf:1: the string does not end");
  CHECK(error_of("%include none") == "/etc/g.conf:1: not found: /etc/none");
  CHECK(error_of("%include g.conf") == "/etc/g.conf:1: /etc/g.conf is included twice");
  CHECK(error_of("%what x") == "/etc/g.conf:1: '%what' is not known");
  CHECK(error_of("{ }") == "/etc/g.conf:1: a name expected, not '{'");
  std::string deep;
  for (int i = 0; i <= kDeepestBlock; ++i) deep += "A {";
  CHECK(error_of(deep) == "/etc/g.conf:1: blocks are too deep");
}

}  // namespace
}  // namespace weft::mds
