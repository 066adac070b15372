// The page that shows a browser how a system is: what `weft status -o json` says, every two
// seconds.
//
//   /              the page; /page.css, /page.js
//   /status.json   SystemReport (admin/source.h) with its problems (admin/health.h), made at most
//                  once in kFresh
//   /clients.json  ClientsReport: the first kMostClients, made at most once in kFreshClients, since
//                  all layouts are looked at for it
//   /events.json   EventsReport: the last kMostEvents, as often as the status
//
// Nothing can be changed by it, and the reports have no secrets. Who reaches the address sees it.
//
// Threading: open() from one thread; the reports are asked for on the page's own, until it is
// destroyed.
//
// Ownership: the clock, and what the reports are made of, outlive it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ganesha-fsal/admin/client_reports.h"
#include "ganesha-fsal/admin/event_reports.h"
#include "ganesha-fsal/admin/source.h"
#include "rpc/base/clock.h"
#include "rpc/base/web_pages.h"

namespace weft::mds {

class StatusPage {
 public:
  static constexpr std::chrono::milliseconds kFresh{500};

  static constexpr std::chrono::milliseconds kFreshClients{2000};
  static constexpr std::size_t kMostClients = 20;
  static constexpr std::size_t kMostEvents = 30;

  struct Reports {
    std::function<Result<SystemReport>()> status;
    std::function<Result<ClientsReport>()> clients;
    std::function<Result<EventsReport>()> events;
  };
  // As WebPages::open().
  [[nodiscard]] static Result<std::unique_ptr<StatusPage>> open(const std::string& listen,
                                                                Reports reports,
                                                                weft::Clock& clock);
  [[nodiscard]] int port() const { return pages_->port(); }

 private:
  struct Document {
    std::string text;
    std::optional<TimePoint> made_at;
  };

  StatusPage(Reports reports, weft::Clock& clock) : reports_(std::move(reports)), clock_(clock) {}
  // One document at a time: WebPages sees to it. `make` returns it, or an error.
  template <class Make>
  [[nodiscard]] Result<std::string> document(Document& kept, std::chrono::milliseconds fresh,
                                             Make make);
  [[nodiscard]] Result<std::string> status();
  [[nodiscard]] Result<std::string> clients();
  [[nodiscard]] Result<std::string> events();

  const Reports reports_;
  weft::Clock& clock_;
  Document status_;
  Document clients_;
  Document events_;
  std::unique_ptr<WebPages> pages_;  // last: no page is made when the rest is destroyed
};

}  // namespace weft::mds
