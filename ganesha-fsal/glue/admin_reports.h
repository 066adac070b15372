// What `weft` shows of this metadata server (admin/source.h), made from a Backend.
#pragma once

#include <memory>

#include "ganesha-fsal/admin/source.h"

namespace weft::mds {

class Backend;

// The backend outlives it.
[[nodiscard]] std::unique_ptr<AdminSource> make_admin_reports(Backend& backend);

}  // namespace weft::mds
