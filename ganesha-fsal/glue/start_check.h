// Whether ganesha.nfsd can start with what its file says: looked at before a store is opened, a
// port is listened on or a boot epoch begins.
//
// Threading: the thread that loads the library.
#pragma once

#include "rpc/base/error.h"

namespace weft::mds {

// Exit statuses of ganesha.nfsd. Of kExitConfiguration its unit does not start it again.
constexpr int kExitFailed = 1;
constexpr int kExitConfiguration = 2;

// That ganesha.nfsd is not serving yet.
[[nodiscard]] bool starting();

// Ends the process, when it is starting and something is wrong; the last line of the log says what.
// The error otherwise, which is in the log then.
[[nodiscard]] Result<> check_before_start();

}  // namespace weft::mds
