// The one place that includes Ganesha. Nothing outside this folder does, and nothing in it includes
// a Ganesha header by itself.
//
// The C++ standard headers come first, since Ganesha's headers redefine names that libstdc++ uses
// (and must not see them inside extern "C"). So do those of liburcu, some of which have templates
// for C++. Ganesha's are C: they are included as system headers, so that our warnings stay ours.
#pragma once

#include <urcu-bp.h>
#include <urcu/ref.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" {
#include "FSAL/fsal_commonlib.h"
#include "FSAL/fsal_config.h"
#include "FSAL/fsal_init.h"
#include "config.h"
#include "config_parsing.h"
#include "export_mgr.h"
#include "fridgethr.h"
#include "fsal.h"
#include "fsal_convert.h"
#include "nfs4_acls.h"
#include "nfs_core.h"
#include "nfs_exports.h"
#include "nfs_init.h"
#include "sal_data.h"
#include "sal_functions.h"
}
