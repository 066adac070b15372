#include "ganesha-fsal/server/events.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "rpc/xdr/describe_json.h"

namespace weft::mds {

namespace {

constexpr int kDepth = 6;  // of the file
constexpr std::uint64_t kMostNumber = std::uint64_t{1} << 62;

// Lines that are told as a sentence; {field} is one of the line's. The data server, field ds, is
// told beside it.
struct Sentence {
  std::string_view event;
  std::string_view text;
  bool each = false;  // what is told of another file is another event
};
constexpr std::array kSentences = {
    Sentence{"audit_ended", "audit ended: {objects} objects, {strays} strays, {removed} removed"},
    Sentence{"changed_since_backup", "{path} (fileid {fileid}) {what} after the backup", true},
    Sentence{"changed_since_backup_more",
             "{files} more files grew or were written after the backup: the log has their fileids"},
    Sentence{"checkpoint_dropped", "a backup of the metadata store was given up: {why}"},
    Sentence{"checkpoint_made", "a backup of the metadata store has begun"},
    Sentence{"control_dropped", "{from} did not get in as a data server: {why}"},
    Sentence{"copy_current", "copy of file {file} is current again"},
    Sentence{"copy_left_out", "copy of file {file} is left out: {cause}"},
    Sentence{"copy_stale", "copy of file {file} misses writes"},
    Sentence{"data_server_connected", "connected"},
    Sentence{"data_server_dead", "its process is dead"},
    Sentence{"data_server_disconnected", "connection lost: {why}"},
    Sentence{"data_server_gone", "gone: {files_with_layouts} files had layouts that name it"},
    Sentence{"data_server_refused", "{name} at {from} is refused as a data server: {why}"},
    Sentence{"data_server_removed", "removed: {outcome}"},
    Sentence{"duty_set", "an administrator made it {duty}"},
    Sentence{"option_reloaded", "option {key} of export {id} is now {to}, and was {from}"},
    Sentence{"option_needs_restart",
             "option {key} of export {id} is {from} until a restart; the file says {to}"},
    Sentence{"fence_failed", "client {client} is not fenced from file {file} yet: {error}"},
    Sentence{"fence_holds", "client {client} is fenced from file {file}"},
    Sentence{"fenced_by_lease", "its lease has ended, which fences all clients there"},
    Sentence{"grace_begun", "grace period: clients reclaim opens and locks"},
    Sentence{"grace_ended", "grace period ended"},
    Sentence{"key_file_unusable", "the key file cannot be used: {error}"},
    Sentence{"keys_changed", "cluster key: {uses} is used, accepted are {accepts}"},
    Sentence{"layout_revoked", "client {client} lost its layout of file {file}: {cause}"},
    Sentence{"leaving", "{duty}: its objects are being moved"},
    Sentence{"metadata_store_full", "the metadata store has no room: {free_bytes} bytes are free"},
    Sentence{"metadata_store_goes_on", "the metadata store's disk answers again"},
    Sentence{"metadata_store_has_room", "the metadata store has room again"},
    Sentence{"metadata_store_waits", "the metadata store waits for its disk: {error}"},
    Sentence{"policy_set", "policy of {path}: {policy}"},
    Sentence{"rebalance_begun", "rebalance begun"},
    Sentence{"rebalance_ended", "rebalance ended: {moved} objects moved"},
    Sentence{"scrub_differs", "copy of file {file} differs from data server {from}'s"},
    Sentence{"scrub_ended", "scrub ended: {files} files compared, {differing} copies differed"},
    Sentence{"scrub_resolved", "scrub resolve of file {file}: {outcome}"},
    Sentence{"server_started", "metadata server {version} started"},
    Sentence{"server_stops", "metadata server stops"},
    Sentence{"store_admitted", "its older store is used again: {outcome}"},
    Sentence{"store_taken_as_is", "an administrator accepted its older store"},
    Sentence{"target_given_up", "an administrator gave up its target {target}"},
};

struct Line {
  std::string_view event;
  std::vector<std::pair<std::string_view, std::string_view>> fields;

  [[nodiscard]] std::string_view value(std::string_view key) const {
    const auto found =
        std::ranges::find(fields, key, [](const auto& field) { return field.first; });
    return found == fields.end() ? std::string_view() : found->second;
  }
};

bool is_name(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

// Whether another field follows: " key=".
bool begins_field(std::string_view text) {
  const auto equals = text.find('=');
  return text.starts_with(' ') && equals != std::string_view::npos &&
         is_name(text.substr(1, equals - 1));
}

// The end of a value in quotes, from behind the first of them. Texts of errors may have quotes in
// them, so it is one that a field follows, or the last.
std::size_t end_of_quoted(std::string_view text) {
  std::size_t last = std::string_view::npos;
  for (auto at = text.find('"'); at != std::string_view::npos; at = text.find('"', at + 1)) {
    last = at;
    if (begins_field(text.substr(at + 1))) break;
  }
  return last;
}

// "event=NAME key=value key="a value"", up to where it is something else.
std::optional<Line> parse(std::string_view text) {
  constexpr std::string_view kHead = "event=";
  if (!text.starts_with(kHead)) return std::nullopt;
  Line line;
  line.event = text.substr(kHead.size());
  line.event = line.event.substr(0, line.event.find(' '));
  if (!is_name(line.event)) return std::nullopt;
  text.remove_prefix(kHead.size() + line.event.size());
  while (begins_field(text)) {
    text.remove_prefix(1);
    const auto equals = text.find('=');
    const std::string_view key = text.substr(0, equals);
    text.remove_prefix(equals + 1);
    const bool quoted = text.starts_with('"');
    if (quoted) text.remove_prefix(1);
    const auto end = std::min(quoted ? end_of_quoted(text) : text.find(' '), text.size());
    line.fields.emplace_back(key, text.substr(0, end));
    text.remove_prefix(std::min(end + (quoted ? 1 : 0), text.size()));
  }
  return line;
}

std::string fill(std::string_view text, const Line& line) {
  std::string out;
  for (;;) {
    const auto open = text.find('{');
    const auto close = text.find('}', open);
    if (close == std::string_view::npos) return out.append(text);
    out.append(text.substr(0, open));
    out.append(line.value(text.substr(open + 1, close - open - 1)));
    text.remove_prefix(close + 1);
  }
}

// Of a line without a sentence: "store review failed: error=...".
std::string spelled_out(const Line& line) {
  std::string out(line.event);
  std::ranges::replace(out, '_', ' ');
  std::string_view before = ": ";
  for (const auto& [key, value] : line.fields) {
    if (key == "ds") continue;
    out += fmt::format("{}{}={}", before, key, value);
    before = ", ";
  }
  return out;
}

std::optional<std::uint32_t> server_of(const Line& line) {
  const std::string_view text = line.value("ds");
  std::uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return id;
}

const Sentence* sentence_of(std::string_view event) {
  const auto found = std::ranges::find(kSentences, event, &Sentence::event);
  return found == kSentences.end() ? nullptr : &*found;
}

bool same_kind(const EventReport& a, const EventReport& b) {
  const auto id = [](const EventReport& of) { return of.server ? of.server->id : 0; };
  if (a.event != b.event || id(a) != id(b)) return false;
  const Sentence* const sentence = sentence_of(a.event);
  return sentence == nullptr || !sentence->each || a.text == b.text;
}

}  // namespace

void Events::note(EventLevel level, std::string_view text) {
  const auto line = parse(text);
  if (!line) return;
  const Sentence* const known = sentence_of(line->event);
  if (known == nullptr && level == EventLevel::kNote) return;
  EventReport event;
  event.level = level;
  event.event = line->event;
  if (const auto id = server_of(*line)) event.server = {*id, ""};
  event.text = known == nullptr ? spelled_out(*line) : fill(known->text, *line);
  event.text = event.text.substr(0, kMaxReportText);
  event.at_ms = static_cast<std::uint64_t>(clock_.wall_ns() / 1'000'000);
  event.first_ms = event.at_ms;
  const MutexLock lock(mutex_);
  add(std::move(event));
}

void Events::add(EventReport event) {
  constexpr std::uint64_t kTogetherMs = std::chrono::milliseconds(kTogether).count();
  // Who sets the clock back begins a new one.
  const auto before = std::ranges::find_if(events_, [&](const EventReport& one) {
    return same_kind(one, event) && one.at_ms <= event.at_ms &&
           event.at_ms - one.at_ms <= kTogetherMs;
  });
  if (before != events_.end()) {
    event.times = before->times + 1;
    event.first_ms = before->first_ms;
    event.level = std::max(event.level, before->level);
    events_.erase(before);
  }
  event.number = ++newest_;
  events_.push_back(std::move(event));
  if (events_.size() > kMost) events_.pop_front();
}

EventsReport Events::after(std::uint64_t number) const {
  const MutexLock lock(mutex_);
  const auto first = std::ranges::upper_bound(events_, number, {}, &EventReport::number);
  return {.newest = newest_, .events = {first, events_.end()}};
}

Result<EventsReport> read_events(std::string_view text) {
  auto document = parse_json(text, kDepth);
  if (!document) return pass(document);
  auto kept = from_json<EventsReport>(*document, "file of events");
  if (!kept) return kept;
  // No system comes so far; and there is always a next one.
  if (kept->newest > kMostNumber) return fail(Errc::kProtocol, "malformed file of events: newest");
  std::uint64_t last = 0;
  for (const EventReport& event : kept->events) {
    if (event.number <= last || event.number > kept->newest) {
      return fail(Errc::kProtocol, "malformed file of events: numbers");
    }
    last = event.number;
  }
  return kept;
}

void Events::keep(const std::string& path) {
  {
    const MutexLock lock(mutex_);
    if (!path_.empty()) return;
    path_ = path;
  }
  std::string text(kLargestFile, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  auto kept = read_events(text);
  if (!kept) return;
  const MutexLock lock(mutex_);
  // What this process has had so far came later than all of them.
  std::deque<EventReport> ours;
  ours.swap(events_);
  newest_ = kept->newest;
  events_.assign(std::make_move_iterator(kept->events.begin()),
                 std::make_move_iterator(kept->events.end()));
  for (EventReport& event : ours) {
    event.number = ++newest_;
    events_.push_back(std::move(event));
  }
  while (events_.size() > kMost) events_.pop_front();
  saved_ = kept->newest;
}

void Events::save() {
  EventsReport now;
  std::string path;
  {
    const MutexLock lock(mutex_);
    if (path_.empty() || saved_ == newest_) return;
    path = path_;
    now = {.newest = newest_, .events = {events_.begin(), events_.end()}};
  }
  const std::string made = path + ".new";
  std::ofstream file(made, std::ios::binary | std::ios::trunc);
  file << write_json(to_json(now)) << '\n';
  file.close();
  if (!file || std::rename(made.c_str(), path.c_str()) != 0) return;
  const MutexLock lock(mutex_);
  saved_ = now.newest;
}

}  // namespace weft::mds
