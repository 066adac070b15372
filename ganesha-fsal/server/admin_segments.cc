#include "ganesha-fsal/server/admin_segments.h"

#include "ganesha-fsal/server/ask_each.h"

namespace weft::mds {
namespace {

SegmentsReport segments(MetadataServer& server) {
  return {ask_each<ServerSegmentsReport>(
      server, control::GetSegments{},
      [](ServerSegmentsReport& of, const control::SegmentCounts& counts) {
        of.kept = true;
        of.counts = counts;
      })};
}

}  // namespace

void add_segments(MetadataServer& server, admin::Table& table) {
  table.on<admin::GetSegments>([&server](auto&) { return segments(server); });
}

}  // namespace weft::mds
