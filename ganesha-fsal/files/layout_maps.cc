#include "ganesha-fsal/files/layout_maps.h"

namespace weft::mds {

void keep_maps(FileTable& files, Namespace& names) {
  names.watch_maps(
      [&files](FileId file, const layout::LayoutMap* now) { files.map_changed(file, now); });
}

Result<std::optional<layout::LayoutMap>> layout_map(FileTable& files, const Namespace& names,
                                                    FileId file, Namespace::IfNone none) {
  if (!names.maps_watched()) return names.layout(file, none);
  const auto seen = files.map(file);
  if (seen.map) return *seen.map;
  auto read = names.layout(file, none);
  if (read && *read) files.keep_map(file, seen.changes, **read);
  return read;
}

}  // namespace weft::mds
