// weft-fsck: checks a metadata store that no server has open (meta/fsck.h), with what the registry
// of data servers keeps there. `weft fsck` runs it.
//
// Exit status: 0 clean, 1 problems found, 2 no answer could be had.
#include <spdlog/fmt/fmt.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "ganesha-fsal/backup/backup_files.h"
#include "ganesha-fsal/cluster/records.h"
#include "ganesha-fsal/meta/fsck.h"
#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "rpc/base/nearest.h"
#include "rpc/xdr/describe_json.h"

namespace {

using namespace weft;
using namespace weft::mds;

constexpr int kClean = 0;
constexpr int kProblems = 1;
constexpr int kFailed = 2;
constexpr std::array<std::string_view, 4> kOptions = {"--help", "--json", "--reclaim", "--version"};

constexpr std::string_view kHelp =
    "usage: weft-fsck [--json] [--reclaim] FOLDER\n"
    "Checks the metadata store in FOLDER, which no server may have open.\n"
    "  --json     the report as one JSON object\n"
    "  --reclaim  if it is clean, remove files that were open when their last name\n"
    "             went\n"
    "  --version  print the version\n";

struct Arguments {
  bool json = false;
  bool reclaim = false;
  std::string path;
};

int complain(const Error& error) {
  fmt::print(stderr, "weft-fsck: {}\n", error.describe());
  return kFailed;
}

int misused(const std::string& what) {
  fmt::print(stderr, "weft-fsck: {}; weft-fsck --help says more\n", what);
  return kFailed;
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out.push_back(c);
    }
  }
  return out + '"';
}

void print_json(const FsckReport& report) {
  fmt::print(
      "{{\"clean\": {}, \"problem_count\": {}, \"inodes\": {}, \"directories\": {}, "
      "\"entries\": {}, \"orphans\": {}, \"layouts\": {}, \"removals\": {}, \"truncates\": {}, "
      "\"xattrs\": {}, \"policies\": {}, \"written\": {}, \"stale\": {}, \"moves\": {}, "
      "\"inline_files\": {}, \"inline_bytes\": {}, \"restored\": {}, \"damaged\": {}, "
      "\"problems\": [",
      report.clean(), report.problem_count, report.inodes, report.directories, report.entries,
      report.orphans, report.layouts, report.removals, report.truncates, report.xattrs,
      report.policies, report.written, report.stale, report.moves, report.inline_files,
      report.inline_bytes, report.restored, report.damaged);
  std::string_view comma;
  for (const Problem& problem : report.problems) {
    fmt::print("{}{{\"kind\": {}, \"inode\": {}, \"text\": {}}}", comma,
               json_text(to_string(problem.kind)), problem.id, write_json(problem.text));
    comma = ", ";
  }
  fmt::print("]}}\n");
}

void print_text(const FsckReport& report) {
  for (const Problem& problem : report.problems) {
    fmt::print("{}: inode {}: {}\n", to_string(problem.kind), problem.id, json_text(problem.text));
  }
  if (report.problem_count > report.problems.size()) {
    fmt::print("and {} more\n", report.problem_count - report.problems.size());
  }
  fmt::print(
      "{}: {} inodes ({} directories), {} entries, {} layouts, {} open when unlinked, {} removals "
      "and {} truncates pending at data servers, {} being written, {} objects stale, {} being "
      "moved, "
      "{} policies, {} inline files with {} bytes\n",
      report.clean() ? "clean" : fmt::format("{} problems", report.problem_count), report.inodes,
      report.directories, report.entries, report.layouts, report.orphans, report.removals,
      report.truncates, report.written, report.stale, report.moves, report.policies,
      report.inline_files, report.inline_bytes);
  if (report.restored > 0) {
    fmt::print("{} files of a backup are not compared yet, or have lost bytes ({})\n",
               report.restored, report.damaged);
  }
}

Result<std::size_t> reclaim_orphans(const std::string& path) {
  auto store = open_rocks_kv({.path = path, .create_if_missing = false, .clock = system_clock()});
  if (!store) return pass(store);
  auto names = Namespace::open(**store);
  if (!names) return pass(names);
  return (*names)->reclaim_orphans();
}

int reclaim(const std::string& path) {
  const auto count = reclaim_orphans(path);
  // Also of one that failed: it has made files, of whoever runs this.
  const auto given = backup::give_store(path, backup::service_user());
  if (!count) return complain(count.error());
  if (!given) return complain(given.error());
  fmt::print(stderr, "removed {} files without names\n", *count);
  return kClean;
}

int run(const Arguments& arguments) {
  FsckReport report;
  {
    auto store =
        open_rocks_kv({.path = arguments.path, .read_only = true, .clock = system_clock()});
    if (!store) return complain(store.error());
    auto checked = fsck((*store)->latest(), check_record);
    if (!checked) return complain(checked.error());
    report = std::move(*checked);
  }
  arguments.json ? print_json(report) : print_text(report);
  if (!report.clean()) return kProblems;
  return arguments.reclaim ? reclaim(arguments.path) : kClean;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help") {
      fmt::print("{}", kHelp);
      return kClean;
    }
    if (argument == "--version") {
      fmt::print("{}\n", WEFT_VERSION);
      return kClean;
    }
    if (argument == "--json") {
      arguments.json = true;
    } else if (argument == "--reclaim") {
      arguments.reclaim = true;
    } else if (!argument.starts_with('-') && arguments.path.empty()) {
      arguments.path = argument;
    } else {
      return misused(unknown_word(argument, kOptions));
    }
  }
  if (arguments.path.empty()) return misused("FOLDER is required");
  return run(arguments);
}
