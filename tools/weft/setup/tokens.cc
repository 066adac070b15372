#include "tools/weft/setup/tokens.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "rpc/base/buffer.h"

namespace weft::cli {
namespace {

constexpr std::size_t kTokenBytes = 16;
constexpr std::size_t kMaxTokenFile = 4096;
constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string random_token(Random& random) {
  std::array<std::byte, kTokenBytes> bytes{};
  random.fill(bytes);
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Result<rpc::peer::ClusterKey> token_secret(std::string_view text) {
  const bool digits = text.find_first_not_of(kDigits) == std::string_view::npos;
  if (text.size() != 2 * kTokenBytes || !digits) {
    return fail(Errc::kInvalid,
                "a token is 32 hexadecimal digits, as weft token prints them on the metadata "
                "server's machine");
  }
  // A key of its own: whatever else is ever made from a token has another.
  const auto bytes = std::as_bytes(std::span(text));
  return rpc::peer::ClusterKey{rpc::peer::derive({}, "join token", bytes)};
}

Result<std::vector<Token>> parse_tokens(std::string_view text) {
  std::vector<Token> tokens;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    Token token{std::string(line.substr(0, line.find(' '))), 0};
    if (!token_secret(token.text)) return fail(Errc::kInvalid, "not a file of tokens");
    const std::string_view time =
        line.substr(std::min(line.size(), token.text.size() + std::size_t{1}));
    const auto [end, error] =
        std::from_chars(time.data(), time.data() + time.size(), token.expires_s);
    if (error != std::errc{} || end != time.data() + time.size() || token.expires_s < 0) {
      return fail(Errc::kInvalid, "not a file of tokens");
    }
    tokens.push_back(std::move(token));
    if (tokens.size() > kMostTokens) return fail(Errc::kInvalid, "a file of too many tokens");
  }
  return tokens;
}

std::int64_t TokenFile::now_s() const {
  return std::chrono::duration_cast<std::chrono::seconds>(clock_.now().time_since_epoch()).count();
}

Result<std::vector<Token>> TokenFile::valid() const {
  const OwnedFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::vector<Token>{};
  if (!file) return fail_errno(errno, "open " + path_);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return fail_errno(errno, "stat " + path_);
  if (!S_ISREG(status.st_mode) || (status.st_mode & 077) != 0) {
    return fail(Errc::kAccess, path_ + " must be a file that only its owner may read: remove it");
  }
  std::array<char, kMaxTokenFile> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return fail_errno(errno, "read " + path_);
  auto tokens = parse_tokens({text.data(), static_cast<std::size_t>(size)});
  OPENSSL_cleanse(text.data(), text.size());
  if (!tokens) return fail(Errc::kInvalid, path_ + ": " + tokens.error().text + ": remove it");
  const std::int64_t now = now_s();
  std::erase_if(*tokens, [now](const Token& token) { return token.expires_s <= now; });
  return tokens;
}

Result<std::string> TokenFile::add(Random& random, Owner owner) {
  auto tokens = valid();
  if (!tokens) return pass(tokens);
  if (tokens->size() >= kMostTokens) {
    return fail(Errc::kBusy, "16 tokens are valid already: use one of them, or wait 15 minutes");
  }
  tokens->push_back({random_token(random), now_s() + std::chrono::seconds(kTokenLife).count()});
  std::string text;
  for (const Token& token : *tokens) {
    text += token.text + " " + std::to_string(token.expires_s) + "\n";
  }
  auto written = write_file(path_, text, owner, 0600);
  OPENSSL_cleanse(text.data(), text.size());
  if (!written) return pass(written);
  return tokens->back().text;
}

}  // namespace weft::cli
