// How commands end: a document on standard output, or an error with what to do about it.
//
// Threading: one thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rpc/base/error.h"

namespace weft::cli {

void print(const std::string& text);
void print(const nlohmann::ordered_json& document);

// Prints "weft: ..." to standard error and returns kExitFailed.
int complain(const std::string& text);
// What is wrong with the admin socket, with advice when nobody could be asked.
[[nodiscard]] std::string admin_trouble(const std::string& socket, const Error& error);
// complain() of that.
int complain_of_admin(const std::string& socket, const Error& error);

}  // namespace weft::cli
