// init, token, join: the first ten minutes of a system. weft(1) and docs/installing.md say what
// they are for.
//
// Each may be run again: what is done already is left as it is, and the rest is done. What was
// there and says otherwise is not changed; the command ends and says what it is.
//
// Threading: one thread; blocking.
#pragma once

#include <string>

#include "tools/weft/commands.h"
#include "tools/weft/setup/machine.h"

namespace weft::cli {

struct InitOptions {
  Places places;
  unsigned copies = 2;
  std::string address;  // empty: that of the default route, or the only one
  std::string admin;    // a client, or a network of them, whose root is not squashed
};
[[nodiscard]] int init_command(const Settings& settings, const InitOptions& options);

struct TokenOptions {
  Places places;
  bool serve = false;  // give the key to who has a token, until none is valid any more
};
[[nodiscard]] int token_command(const Settings& settings, const TokenOptions& options);

struct JoinOptions {
  Places places;
  std::string host;
  std::string token;  // "-": the first line of standard input
  std::string disk;
  std::string domain;  // empty: the machine's name
  std::string name;    // empty: of machine and disk
  std::string
      address;  // numeric, with a port perhaps; empty: by which the metadata server is reached
};
[[nodiscard]] int join_command(const Settings& settings, const JoinOptions& options);

// A new token, and somebody who listens for it, or what to start for that.
struct Invitation {
  std::string token;
  std::string host;   // for who joins
  std::string start;  // what is to be started by hand; empty: it listens
};
[[nodiscard]] Result<Invitation> invite(const TokenOptions& options);

}  // namespace weft::cli
