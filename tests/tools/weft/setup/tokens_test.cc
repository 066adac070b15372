#include "tools/weft/setup/tokens.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weft::cli {
namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/weft-tokens-test.XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

std::vector<std::string> texts(const TokenFile& file) {
  std::vector<std::string> out;
  for (const Token& token : file.valid().value()) out.push_back(token.text);
  return out;
}

}  // namespace

TEST_CASE("tokens are valid for a quarter of an hour", "[setup]") {
  const Folder folder;
  ManualClock clock;
  SeededRandom random(1);
  TokenFile file(folder.path + "/tokens", clock);
  CHECK(file.valid().value().empty());
  const std::string first = file.add(random, {::geteuid(), ::getegid()}).value();
  CHECK(first.size() == 32);
  clock.advance(std::chrono::minutes(10));
  const std::string second = file.add(random, {::geteuid(), ::getegid()}).value();
  CHECK(texts(file) == std::vector{first, second});
  clock.advance(std::chrono::minutes(5));
  CHECK(texts(file) == std::vector{second});
  clock.advance(std::chrono::minutes(10));
  CHECK(file.valid().value().empty());
  struct stat status{};
  REQUIRE(::stat((folder.path + "/tokens").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("there are sixteen tokens at a time, and room when they have expired", "[setup]") {
  const Folder folder;
  ManualClock clock;
  SeededRandom random(2);
  TokenFile file(folder.path + "/tokens", clock);
  for (int i = 0; i < 16; ++i) CHECK(file.add(random, {::geteuid(), ::getegid()}));
  CHECK(file.add(random, {::geteuid(), ::getegid()}).error() == Errc::kBusy);
  CHECK(file.valid().value().size() == 16);
  clock.advance(kTokenLife);
  CHECK(file.add(random, {::geteuid(), ::getegid()}));
}

TEST_CASE("a token file that others may read, or that is none, is refused", "[setup]") {
  const Folder folder;
  ManualClock clock;
  SeededRandom random(3);
  const std::string path = folder.path + "/tokens";
  TokenFile file(path, clock);
  REQUIRE(file.add(random, {::geteuid(), ::getegid()}));
  ::chmod(path.c_str(), 0640);
  CHECK(file.valid().error() == Errc::kAccess);
  ::chmod(path.c_str(), 0600);
  std::ofstream(path) << "no token\n";
  CHECK(file.valid().error() == Errc::kInvalid);
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/etc/hostname", path);
  CHECK_FALSE(file.valid());
}

TEST_CASE("a token is 32 hexadecimal digits, and each is a secret of its own", "[setup]") {
  const std::string good(32, 'a');
  CHECK(token_secret(good));
  CHECK(token_secret(good).value() == token_secret(good).value());
  CHECK_FALSE(token_secret(good).value() == token_secret(std::string(31, 'a') + "b").value());
  for (const std::string& bad : {std::string(), std::string(31, 'a'), std::string(33, 'a'),
                                 std::string(32, 'A'), std::string(31, 'a') + "\n"}) {
    CHECK(token_secret(bad).error() == Errc::kInvalid);
  }
}

TEST_CASE("lines of a token file are read strictly", "[setup]") {
  const std::string token(32, '0');
  CHECK(parse_tokens("").value().empty());
  CHECK(parse_tokens(token + " 17\n").value() == std::vector<Token>{{token, 17}});
  for (const std::string& bad : {token + "\n", token + " \n", token + " -1\n", token + " 1 \n",
                                 token + " 99999999999999999999\n", "x" + token + " 1\n"}) {
    CHECK(parse_tokens(bad).error() == Errc::kInvalid);
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += token + " 1\n";
  CHECK(parse_tokens(many).error() == Errc::kInvalid);
}

}  // namespace weft::cli
