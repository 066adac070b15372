// The page that shows a browser how a system is: what `weft status -o json` says, every two
// seconds.
//
//   /              the page; /page.css, /page.js
//   /status.json   SystemReport (admin/source.h), made at most once in kFresh
//
// Nothing can be changed by it, and the reports have no secrets. Who reaches the address sees it.
//
// Threading: open() from one thread; the report is asked for on the page's own, until it is
// destroyed.
//
// Ownership: the clock, and what the report is made of, outlive it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ganesha-fsal/admin/source.h"
#include "rpc/base/clock.h"
#include "rpc/base/web_pages.h"

namespace weft::mds {

class StatusPage {
 public:
  static constexpr std::chrono::milliseconds kFresh{500};

  using Report = std::function<Result<SystemReport>()>;
  // As WebPages::open().
  [[nodiscard]] static Result<std::unique_ptr<StatusPage>> open(const std::string& listen,
                                                                Report report, weft::Clock& clock);
  [[nodiscard]] int port() const { return pages_->port(); }

 private:
  StatusPage(Report report, weft::Clock& clock) : report_(std::move(report)), clock_(clock) {}
  // One at a time: WebPages sees to it.
  [[nodiscard]] Result<std::string> status();

  const Report report_;
  weft::Clock& clock_;
  std::string made_;
  std::optional<TimePoint> made_at_;
  std::unique_ptr<WebPages> pages_;  // last: no page is made when the rest is destroyed
};

}  // namespace weft::mds
