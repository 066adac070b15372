// Join tokens: secrets that let a machine have the cluster key for a quarter of an hour.
//
// A token is 32 hexadecimal digits, 16 random bytes. The metadata server's machine keeps those that
// are valid in a file of mode 0600 that does not outlive a boot (below /run), a line each: the
// token, and the second of the machine's life at which it expires. A clock that is set changes
// nothing.
//
// Threading: plain values and pure functions, but for TokenFile, of one thread at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/error.h"
#include "rpc/peer/keys.h"
#include "tools/weft/setup/machine.h"

namespace weft::cli {

constexpr std::chrono::minutes kTokenLife{15};
constexpr std::size_t kMostTokens = 16;  // valid at a time

struct Token {
  std::string text;
  std::int64_t expires_s = 0;  // by the boot-time clock
  friend bool operator==(const Token&, const Token&) = default;
};

[[nodiscard]] std::string random_token(Random& random);
// What both ends of a connection prove that they have. kInvalid when that is no token.
[[nodiscard]] Result<rpc::peer::ClusterKey> token_secret(std::string_view text);
// What a token file has; kInvalid.
[[nodiscard]] Result<std::vector<Token>> parse_tokens(std::string_view text);

class TokenFile {
 public:
  TokenFile(std::string path, const Clock& boottime) : path_(std::move(path)), clock_(boottime) {}

  // Those that have not expired. No file: none. kAccess when others than its owner may read it.
  [[nodiscard]] Result<std::vector<Token>> valid() const;
  // A new one, valid for kTokenLife. The file is replaced at once, and belongs to `owner`. kBusy
  // when there are kMostTokens. Under a lock: two at once would be one.
  [[nodiscard]] Result<std::string> add(Random& random, Owner owner);

 private:
  [[nodiscard]] std::int64_t now_s() const;

  const std::string path_;
  const Clock& clock_;
};

}  // namespace weft::cli
