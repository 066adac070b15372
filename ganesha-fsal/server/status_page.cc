#include "ganesha-fsal/server/status_page.h"

#include "ganesha-fsal/server/page_files.h"
#include "rpc/xdr/describe_json.h"

namespace weft::mds {
namespace {

WebPage fixed(std::string path, std::string type, const char* text) {
  return {std::move(path), std::move(type),
          [text]() -> Result<std::string> { return std::string(text); }};
}

}  // namespace

Result<std::unique_ptr<StatusPage>> StatusPage::open(const std::string& listen, Report report,
                                                     weft::Clock& clock) {
  auto page = std::unique_ptr<StatusPage>(new StatusPage(std::move(report), clock));
  auto pages = WebPages::open(listen, {fixed("/", "text/html", kPageHtml),
                                       fixed("/page.css", "text/css", kPageCss),
                                       fixed("/page.js", "text/javascript", kPageScript),
                                       {"/status.json", "application/json",
                                        [self = page.get()] { return self->status(); }}});
  if (!pages) return pass(pages);
  page->pages_ = std::move(*pages);
  return page;
}

Result<std::string> StatusPage::status() {
  const auto now = clock_.now();
  if (made_at_ && now - *made_at_ < kFresh) return made_;
  auto system = report_();
  if (!system) return pass(system);
  made_ = write_json(to_json(*system));
  made_at_ = now;
  return made_;
}

}  // namespace weft::mds
