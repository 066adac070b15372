// Tells the service manager that the server gets on, for as long as it does (WatchdogSec= of its
// unit).
//
// The mark is of Ganesha's workers, which do all that clients ask for, and of the thread of each
// store that serves data servers. A worker's sign goes through the queue that requests go through.
// What may be before it in that queue is a record of each connection, and what resumes: that is
// done in far less than WatchdogSec unless no worker gets on.
//
// Threading: any thread.
#pragma once

#include "ganesha-fsal/server/signs_of_life.h"

namespace weft::mds {

// Of this process. Never destroyed, as exports().
[[nodiscard]] SignsOfLife& signs_of_life();

// From when clients are served until the library is unloaded. Does nothing if nobody has asked for
// it.
void start_watchdog();
void stop_watchdog();

}  // namespace weft::mds
