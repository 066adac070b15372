#include "dataserver/main/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <exception>

namespace weft::ds {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

class Source final : public prometheus::Collectable {
 public:
  explicit Source(MetricsPage::Sample sample) : sample_(std::move(sample)) {}

  [[nodiscard]] std::vector<MetricFamily> Collect() const override;

 private:
  MetricsPage::Sample sample_;
};

MetricFamily family(MetricType type, const char* name, const char* help) {
  MetricFamily made;
  made.name = name;
  made.help = help;
  made.type = type;
  return made;
}

void add(MetricFamily& to, std::uint64_t value, const char* op = nullptr) {
  ClientMetric metric;
  if (to.type == MetricType::Counter) metric.counter.value = static_cast<double>(value);
  if (to.type == MetricType::Gauge) metric.gauge.value = static_cast<double>(value);
  if (op != nullptr) metric.label.push_back({"op", op});
  to.metric.push_back(std::move(metric));
}

std::vector<MetricFamily> Source::Collect() const {
  const MetricsSample now = sample_();
  std::vector<MetricFamily> all;
  const auto single = [&all](MetricType type, const char* name, const char* help,
                             std::uint64_t value) {
    all.push_back(family(type, name, help));
    add(all.back(), value);
  };
  using enum MetricType;
  all.push_back(family(Counter, "weft_ds_operations_total", "NFS operations begun"));
  add(all.back(), now.reads, "read");
  add(all.back(), now.writes, "write");
  add(all.back(), now.commits, "commit");
  single(Counter, "weft_ds_read_bytes_total", "Bytes read by clients", now.read_bytes);
  single(Counter, "weft_ds_write_bytes_total", "Bytes written by clients", now.write_bytes);
  single(Counter, "weft_ds_zero_copy_bytes_total", "Bytes read that were sent from the page cache",
         now.zero_copy_bytes);
  single(Counter, "weft_ds_errors_total", "Operations answered with an error", now.errors);
  single(Counter, "weft_ds_handles_refused_total",
         "Handles that were forged, foreign, fenced, or lacked the right", now.refused);
  single(Counter, "weft_ds_size_queries_total", "File sizes asked of the metadata server",
         now.size_queries);
  single(Counter, "weft_ds_size_reports_total", "Stable writes told to the metadata server",
         now.size_reports);
  single(Counter, "weft_ds_replays_total", "Requests recognised as sent again", now.replays);
  single(Gauge, "weft_ds_running", "Operations in progress", now.running);
  single(Gauge, "weft_ds_connections", "Connections open", now.connections);
  single(Gauge, "weft_ds_sessions", "Sessions open", now.sessions);
  single(Gauge, "weft_ds_memory_bytes", "Memory of data in transit", now.memory_bytes);
  single(Gauge, "weft_ds_store_capacity_bytes", "Size of the store's file system",
         now.capacity_bytes);
  single(Gauge, "weft_ds_store_free_bytes", "Free in the store's file system", now.free_bytes);
  single(Gauge, "weft_ds_store_objects", "Objects in the store", now.objects);
  single(Gauge, "weft_ds_mirror_pending_bytes", "Answered, and not at every partner yet",
         now.mirror.pending_bytes);
  single(Gauge, "weft_ds_mirror_oldest_pending_ms", "Age of the oldest of them",
         static_cast<std::uint64_t>(now.mirror.oldest_pending.count()));
  single(Gauge, "weft_ds_mirror_partners_away", "Partners that are not written to just now",
         now.mirror.partners_away);
  single(Counter, "weft_ds_mirror_forwarded_bytes_total", "Bytes written at partners",
         now.mirror.forwarded_bytes);
  single(Counter, "weft_ds_mirror_missed_writes_total", "Writes acknowledged without a partner",
         now.mirror.missed_writes);
  single(Gauge, "weft_ds_registered", "1 while registered with the metadata server",
         now.registered ? 1 : 0);
  return all;
}

}  // namespace

struct MetricsPage::Impl {
  Impl(const layout::NetAddress& listen, Sample sample)
      : source(std::make_shared<Source>(std::move(sample))), exposer(layout::to_string(listen), 1) {
    exposer.RegisterCollectable(source);
  }
  std::shared_ptr<Source> source;  // the exposer holds it weakly
  prometheus::Exposer exposer;
};

MetricsPage::MetricsPage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MetricsPage::~MetricsPage() = default;

Result<std::unique_ptr<MetricsPage>> MetricsPage::open(const layout::NetAddress& listen,
                                                       Sample sample) {
  try {
    return std::unique_ptr<MetricsPage>(
        new MetricsPage(std::make_unique<Impl>(listen, std::move(sample))));
  } catch (const std::exception& error) {
    return fail(Errc::kInvalid,
                "metrics page at " + layout::to_string(listen) + ": " + error.what());
  }
}

}  // namespace weft::ds
