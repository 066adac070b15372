#include "layout/object_id.h"

#include <cinttypes>
#include <cstdio>

namespace weft::layout {

std::string to_string(const ObjectId& id) {
  char text[48];
  std::snprintf(text, sizeof text, "%" PRIx32 ".%016" PRIx64 ".%" PRIx32, id.fsid, id.fileid,
                id.generation);
  return text;
}

}  // namespace weft::layout
