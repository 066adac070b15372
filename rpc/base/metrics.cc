#include "rpc/base/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

#include "rpc/base/assert.h"
#include "rpc/base/listen_trouble.h"

namespace weft {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

struct Metrics::Impl {
  std::vector<MetricFamily> families;

  // The metric of this name that is to be filled in.
  ClientMetric& add(MetricType type, const char* name, const char* help, Labels labels) {
    if (families.empty() || families.back().name != name) {
      for (const MetricFamily& other : families) WEFT_ASSERT(other.name != name);
      MetricFamily family;
      family.name = name;
      family.help = help;
      family.type = type;
      families.push_back(std::move(family));
    }
    ClientMetric metric;
    for (const auto& [label, value] : labels) {
      metric.label.push_back({std::string(label), std::string(value)});
    }
    families.back().metric.push_back(std::move(metric));
    return families.back().metric.back();
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::add_counter(const char* name, const char* help, double value, Labels labels) {
  impl_->add(MetricType::Counter, name, help, labels).counter.value = value;
}

void Metrics::add_gauge(const char* name, const char* help, double value, Labels labels) {
  impl_->add(MetricType::Gauge, name, help, labels).gauge.value = value;
}

void Metrics::histogram(const char* name, const char* help, const LatencyTotals& totals,
                        Labels labels) {
  using Seconds = std::chrono::duration<double>;
  auto& histogram = impl_->add(MetricType::Histogram, name, help, labels).histogram;
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < kLatencyBounds.size(); ++i) {
    so_far += totals.buckets[i];
    histogram.bucket.push_back({so_far, Seconds(kLatencyBounds[i]).count()});
  }
  histogram.sample_count = so_far + totals.buckets.back();
  histogram.sample_sum = static_cast<double>(totals.sum_ns) / 1e9;
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(impl_->families);
}

struct MetricsPage::Impl {
  class Source final : public prometheus::Collectable {
   public:
    explicit Source(Write write) : write_(std::move(write)) {}
    [[nodiscard]] std::vector<MetricFamily> Collect() const override {
      Metrics metrics;
      write_(metrics);
      return std::move(metrics.impl_->families);
    }

   private:
    Write write_;
  };

  Impl(const std::string& listen, Write write)
      : source(std::make_shared<Source>(std::move(write))), exposer(listen, 1) {
    exposer.RegisterCollectable(source);
  }
  std::shared_ptr<Source> source;  // the exposer holds it weakly
  prometheus::Exposer exposer;
};

MetricsPage::MetricsPage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsPage::~MetricsPage() = default;

int MetricsPage::port() const {
  const auto ports = impl_->exposer.GetListeningPorts();
  return ports.empty() ? 0 : ports.front();
}

Result<std::unique_ptr<MetricsPage>> MetricsPage::open(const std::string& listen, Write write) {
  try {
    return std::unique_ptr<MetricsPage>(
        new MetricsPage(std::make_unique<Impl>(listen, std::move(write))));
  } catch (const std::exception& error) {
    const std::string why = listen_trouble(listen);
    return fail(Errc::kInvalid, "metrics page at " + listen + ": " +
                                    (why.empty() ? std::string(error.what()) : why));
  }
}

}  // namespace weft
