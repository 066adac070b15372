// What can be known to be wrong before a metadata server has its store: a first start that fails
// makes none, so that the next is free to begin one by another configuration.
//
// Threading: one thread; blocking.
#pragma once

#include <expected>
#include <memory>

#include "ganesha-fsal/server/server_options.h"
#include "rpc/base/error.h"
#include "rpc/peer/keyring.h"

namespace weft::mds {

// An error that an option's value brings: its text names the option.
[[nodiscard]] std::unexpected<Error> of_option(const char* option, const Error& error);

// The cluster's keys, of Key_File. kInvalid: there is none.
[[nodiscard]] Result<std::shared_ptr<rpc::peer::Keyring>> load_keys(const ServerOptions& options);

// The key file can be read, and the addresses can be had. The text names the option.
[[nodiscard]] Result<> check_before_store(const ServerOptions& options);

}  // namespace weft::mds
