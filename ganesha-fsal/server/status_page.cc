#include "ganesha-fsal/server/status_page.h"

#include "ganesha-fsal/admin/health.h"
#include "ganesha-fsal/server/page_files.h"

namespace weft::mds {
namespace {

WebPage fixed(std::string path, std::string type, const char* text) {
  return {std::move(path), std::move(type),
          [text]() -> Result<std::string> { return std::string(text); }};
}

}  // namespace

Result<std::unique_ptr<StatusPage>> StatusPage::open(const std::string& listen, Reports reports,
                                                     weft::Clock& clock) {
  auto page = std::unique_ptr<StatusPage>(new StatusPage(std::move(reports), clock));
  const auto made = [self = page.get()](const char* path,
                                        Result<std::string> (StatusPage::*make)()) {
    return WebPage{path, "application/json", [self, make] { return (self->*make)(); }};
  };
  auto pages = WebPages::open(
      listen,
      {fixed("/", "text/html", kPageHtml), fixed("/page.css", "text/css", kPageCss),
       fixed("/page.js", "text/javascript", kPageScript), made("/status.json", &StatusPage::status),
       made("/clients.json", &StatusPage::clients), made("/events.json", &StatusPage::events)});
  if (!pages) return pass(pages);
  page->pages_ = std::move(*pages);
  return page;
}

template <class Make>
Result<std::string> StatusPage::document(Document& kept, std::chrono::milliseconds fresh,
                                         Make make) {
  const auto now = clock_.now();
  if (kept.made_at && now - *kept.made_at < fresh) return kept.text;
  auto report = make();
  if (!report) return pass(report);
  kept.text = write_json(std::move(*report));
  kept.made_at = now;
  return kept.text;
}

Result<std::string> StatusPage::status() {
  return document(status_, kFresh, [this]() -> Result<Json> {
    auto report = reports_.status();
    if (!report) return pass(report);
    return status_json(*report);
  });
}

Result<std::string> StatusPage::clients() {
  return document(clients_, kFreshClients, [this]() -> Result<Json> {
    auto report = reports_.clients();
    if (!report) return pass(report);
    if (report->clients.size() > kMostClients) report->clients.resize(kMostClients);
    return to_json(*report);
  });
}

Result<std::string> StatusPage::events() {
  return document(events_, kFresh, [this]() -> Result<Json> {
    auto report = reports_.events();
    if (!report) return pass(report);
    if (report->events.size() > kMostEvents) {
      report->events.erase(report->events.begin(), report->events.end() - kMostEvents);
    }
    return to_json(*report);
  });
}

}  // namespace weft::mds
