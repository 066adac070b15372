// A client that returns what it holds of a file.
#pragma once

#include "ganesha-fsal/files/layout_service.h"

namespace weft::test {

inline void give_back(mds::LayoutService& layouts, mds::FileId file, mds::ClientId client) {
  for (const auto access : {layout::Access::kRead, layout::Access::kReadWrite}) {
    while (layouts.holds(file, client, access)) layouts.returned(file, client, access);
  }
}

}  // namespace weft::test
