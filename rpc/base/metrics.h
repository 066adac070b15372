// Metrics for Prometheus: what a process counts, as text over HTTP.
//
// A page is given a function that writes down the present values; it is called for each scrape.
//
//   MetricsPage::open("127.0.0.1:9100", [&](Metrics& out) {
//     out.counter("weft_ds_errors_total", "Operations answered with an error", errors);
//     out.gauge("weft_mds_data_servers", "Data servers", up, {{"state", "up"}});
//     out.gauge("weft_mds_data_servers", "Data servers", down, {{"state", "down"}});
//   });
//
// Names are the field's: weft_<program>_<what>_<unit>, counters end in _total, units are seconds
// and bytes. Values with one name and other labels are written one after another.
//
// Threading: Metrics is one scrape's, for one thread. The page calls its function on threads of
// its own, one at a time, until it is destroyed; then no call is under way any more.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rpc/base/error.h"
#include "rpc/base/latency.h"

namespace weft {

class Metrics {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Counts up from 0 while the process lives. Any number; Prometheus keeps it as a double.
  template <class Number>
  void counter(const char* name, const char* help, Number value, Labels labels = {}) {
    add_counter(name, help, static_cast<double>(value), labels);
  }
  template <class Number>
  void gauge(const char* name, const char* help, Number value, Labels labels = {}) {
    add_gauge(name, help, static_cast<double>(value), labels);
  }

  // How long something takes; the name ends in _seconds.
  void histogram(const char* name, const char* help, const LatencyTotals& totals,
                 Labels labels = {});

  // The text format, version 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  friend class MetricsPage;
  struct Impl;
  void add_counter(const char* name, const char* help, double value, Labels labels);
  void add_gauge(const char* name, const char* help, double value, Labels labels);
  std::unique_ptr<Impl> impl_;
};

class MetricsPage {
 public:
  using Write = std::function<void(Metrics&)>;

  // Listens on "host:port" ("[host]:port" for IPv6; port 0: a free one). kInvalid with the reason
  // when that cannot be.
  [[nodiscard]] static Result<std::unique_ptr<MetricsPage>> open(const std::string& listen,
                                                                 Write write);
  ~MetricsPage();
  MetricsPage(const MetricsPage&) = delete;
  MetricsPage& operator=(const MetricsPage&) = delete;

  [[nodiscard]] int port() const;

 private:
  struct Impl;
  explicit MetricsPage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
