// Tells the service manager that started us how we are: sd_notify(3), without its library.
//
// Threading: any thread.
#pragma once

#include <string_view>

namespace weft {

// "READY=1", "WATCHDOG=1", "STATUS=..."; several on lines of their own. A datagram to the socket
// that NOTIFY_SOCKET names. Nobody has to listen: without one nothing happens.
void tell_service_manager(std::string_view state);

}  // namespace weft
