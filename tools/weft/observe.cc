#include "tools/weft/observe.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>
#include <thread>

#include "ganesha-fsal/admin/client.h"
#include "rpc/base/nearest.h"
#include "tools/weft/df.h"
#include "tools/weft/output.h"
#include "tools/weft/report.h"
#include "tools/weft/setup/machine.h"
#include "tools/weft/table.h"
#include "tools/weft/top.h"
#include "tools/weft/versions.h"

namespace weft::cli {
namespace {

constexpr std::chrono::seconds kDataServersPatience{30};  // they may not answer

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// A line each.
Result<Muted> read_muted(const std::string& path) {
  Muted muted;
  auto text = read_text(path);
  if (!text && text.error() == Errc::kNotFound) return muted;
  if (!text) return pass(text);
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) muted.insert(line);
  }
  return muted;
}

std::string unknown_code(const std::string& word) {
  std::vector<std::string_view> known;
  for (const HealthCode& code : health_codes()) known.push_back(code.code);
  if (std::ranges::find(known, word) != known.end()) return "";
  const std::string_view near = nearest(word, known);
  return fmt::format(
      "there is no code {}; {}", printable(word),
      is_near(word, near) ? fmt::format("did you mean {}?", near) : "weft(1) lists them");
}

Result<> change_muted(const HealthOptions& options, Muted& muted) {
  for (const auto* const words : {&options.mute, &options.unmute}) {
    for (const std::string& word : *words) {
      if (auto wrong = unknown_code(word); !wrong.empty()) return fail(Errc::kInvalid, wrong);
    }
  }
  muted.insert(options.mute.begin(), options.mute.end());
  for (const std::string& word : options.unmute) muted.erase(word);
  std::string text;
  for (const std::string& word : muted) text += word + "\n";
  return write_file(options.muted, text, {.user = ::geteuid(), .group = ::getegid()}, 0644);
}

}  // namespace

std::string health_text(const std::vector<Problem>& found, const Muted& muted) {
  std::string out;
  std::size_t silent = 0;
  for (const Problem& problem : found) {
    if (muted.contains(problem.code)) {
      ++silent;
      continue;
    }
    out += fmt::format("{}{}\n", problem.code, is_note(problem.code) ? " (note)" : "");
    out += wrapped("  ", printable(problem.text));
  }
  if (out.empty()) out = "healthy\n";
  if (silent > 0) out += fmt::format("{} muted (weft health --unmute CODE)\n", silent);
  return out;
}

namespace {

Json health_json(const std::vector<Problem>& found, const Muted& muted, bool healthy) {
  Json rows = Json::array();
  for (const Problem& problem : found) {
    rows.push_back({{"code", std::string(problem.code)},
                    {"text", problem.text},
                    {"note", is_note(problem.code)},
                    {"muted", muted.contains(problem.code)}});
  }
  return {{"healthy", healthy}, {"problems", rows}};
}

}  // namespace

int health_command(const Settings& settings, const HealthOptions& options) {
  auto muted = read_muted(options.muted);
  if (!muted) return complain(muted.error().describe());
  if (!options.mute.empty() || !options.unmute.empty()) {
    if (auto changed = change_muted(options, *muted); !changed) {
      return complain(changed.error().text);
    }
  }
  const auto system = mds::admin::Client(settings.socket).ask(mds::admin::GetStatus{});
  if (!system) return complain_of_admin(settings.socket, system.error());
  const auto found = health(*system);
  const bool healthy = std::ranges::all_of(found, [&muted](const Problem& problem) {
    return is_note(problem.code) || muted->contains(problem.code);
  });
  if (settings.json) {
    print(health_json(found, *muted, healthy));
  } else if (!healthy || !options.quiet) {
    print(health_text(found, *muted));
  }
  return healthy ? kExitGood : kExitBad;
}

int df_command(const Settings& settings) {
  const auto servers = mds::admin::Client(settings.socket).ask(mds::admin::GetDataServers{});
  if (!servers) return complain_of_admin(settings.socket, servers.error());
  const SpaceReport space = space_of(servers->data_servers);
  settings.json ? print(space_json(space)) : print(space_text(space));
  return kExitGood;
}

namespace {

// So that what follows stands alone on a screen.
void clear_screen() {
  if (::isatty(STDOUT_FILENO) == 1) print(std::string("\033[H\033[2J"));
}

}  // namespace

int watch(double interval_s, const std::function<int()>& command) {
  for (;;) {
    clear_screen();
    static_cast<void>(command());
    std::fflush(stdout);
    pause(interval_s);
  }
}

int top_command(const Settings& settings, const TopOptions& options) {
  using Clock = std::chrono::steady_clock;
  const mds::admin::Client client(settings.socket);
  auto before = client.ask(mds::admin::GetStatus{});
  auto since = Clock::now();
  for (unsigned done = 0; options.count == 0 || done < options.count; ++done) {
    if (!before) return complain_of_admin(settings.socket, before.error());
    pause(options.interval_s);
    auto after = client.ask(mds::admin::GetStatus{});
    const auto now = Clock::now();
    if (!after) return complain_of_admin(settings.socket, after.error());
    const Rates rates =
        rates_between(*before, *after, std::chrono::duration<double>(now - since).count());
    if (options.count != 1) clear_screen();
    settings.json ? print(rates_json(rates)) : print(rates_text(rates));
    std::fflush(stdout);
    before = std::move(after);
    since = now;
  }
  return kExitGood;
}

int version_command(const Settings& settings, bool all, const std::string& own) {
  if (!all) {
    settings.json ? print(Json{{"weft", own}}) : print("weft " + own + "\n");
    return kExitGood;
  }
  const mds::admin::Client client(settings.socket, kDataServersPatience);
  auto system = client.ask(mds::admin::GetStatus{});
  if (!system) return complain_of_admin(settings.socket, system.error());
  Versions versions{.own = own, .metadata_server = system->status.version};
  versions.servers = std::move(system->data_servers);
  auto targets = client.ask(mds::admin::GetTargets{});
  // A metadata server of the version before does not ask them.
  versions.too_old = !targets && targets.error() == Errc::kNotSupported;
  if (!targets && !versions.too_old) return complain_of_admin(settings.socket, targets.error());
  if (targets) versions.targets = std::move(*targets);
  settings.json ? print(versions_json(versions)) : print(versions_text(versions));
  return all_the_same(versions) ? kExitGood : kExitBad;
}

}  // namespace weft::cli
