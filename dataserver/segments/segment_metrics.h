// What segments count, for Prometheus; the calls below say what each number is. Reads that caches
// above have answered are not among them.
//
// Threading: a pure function.
#pragma once

#include "dataserver/segments/segment_table.h"
#include "rpc/base/metrics.h"

namespace weft::ds {

inline void write_segment_metrics(const SegmentTable& table, Metrics& out) {
  const SegmentView& view = table.view();
  out.counter("weft_ds_segment_reads_total", "Reads that reached the segments", view.reads.load());
  out.counter("weft_ds_segment_hits_total", "Reads answered from a segment in memory",
              view.hits.load());
  out.counter("weft_ds_segment_waits_total",
              "Reads answered from a segment that came from disk first", view.waits.load());
  out.counter("weft_ds_segment_hit_bytes_total", "Bytes answered from segments",
              view.hit_bytes.load());
  out.counter("weft_ds_segment_loads_total", "Segments that came from disk", view.loads.load());
  out.counter("weft_ds_segment_loaded_bytes_total", "Bytes of segments that came from disk",
              view.loaded_bytes.load());
  out.counter("weft_ds_segment_built_total", "Segments written", view.built.load());
  out.counter("weft_ds_segment_built_bytes_total", "Bytes of segments written",
              view.built_bytes.load());
  out.counter("weft_ds_segment_invalidated_total", "Segments removed because of a change",
              view.invalidated.load());
  out.counter("weft_ds_segment_replaced_total", "Segments removed for others",
              view.replaced.load());
  out.counter("weft_ds_segment_damaged_total",
              "Segments removed because they could not be read as written", view.damaged.load());
  out.gauge("weft_ds_segments", "Segments there are", view.segments.load());
  out.gauge("weft_ds_segment_bytes", "Bytes of segments on disk", view.bytes.load());
  out.gauge("weft_ds_segment_memory_bytes", "Bytes of segments in memory", table.memory_bytes());
}

}  // namespace weft::ds
