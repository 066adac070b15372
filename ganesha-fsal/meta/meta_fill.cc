// weft-meta-fill: makes many empty files in a metadata store that nobody serves. Not installed; for
// benchmarks of stores that are larger than a generator would fill in a day.
//
// usage: weft-meta-fill FOLDER PREFIX DIRECTORIES FROM TO
//
// File number i is PREFIX.f<i> in directory PREFIX.d<i % DIRECTORIES> of the root, as weft-load
// names them. Made are those from FROM up to TO, each by the operation that a client's OPEN comes
// to. Nothing waits for a sync: all of it is on the disk when the program ends.
//
// Threading: main() and four threads, each with batches of its own.
#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "rpc/base/buffer.h"

namespace {

using namespace weft;
using namespace weft::mds;

constexpr unsigned kThreads = 4;
constexpr std::uint64_t kBatch = 1000;
constexpr std::chrono::milliseconds kLook{100};
constexpr unsigned kTellEvery = 100;  // looks

struct Order {
  std::string folder;
  std::string prefix;
  std::uint64_t directories = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Those of an earlier call too.
Result<std::vector<FileId>> directories(Namespace& names, const Order& order) {
  std::vector<FileId> out;
  for (std::uint64_t i = 0; i < order.directories; ++i) {
    const std::string name = fmt::format("{}.d{}", order.prefix, i);
    auto found = names.lookup(kRootFileId, name);
    if (found) {
      out.push_back(found->id);
      continue;
    }
    auto made = names.mkdir(kSuperuser, kRootFileId, name, {.mode = 0755});
    if (!made) return pass(made);
    out.push_back(made->attributes.id);
  }
  return out;
}

Result<> fill(Namespace& names, const Order& order) {
  auto folders = directories(names, order);
  if (!folders) return pass(folders);
  std::atomic<std::uint64_t> next = order.from;
  std::atomic<std::uint64_t> made = 0;
  std::vector<Result<>> outcomes(kThreads);
  const auto run = [&](Result<>& outcome) {
    for (std::uint64_t at = next.fetch_add(kBatch); at < order.to; at = next.fetch_add(kBatch)) {
      for (std::uint64_t i = at; i < std::min(at + kBatch, order.to); ++i) {
        const FileId folder = (*folders)[i % folders->size()];
        auto file = names.create(kSuperuser, folder, fmt::format("{}.f{}", order.prefix, i),
                                 {.mode = 0644});
        if (!file) {
          next = order.to;
          outcome = pass(file);
          return;
        }
        ++made;
      }
    }
  };
  std::vector<std::jthread> threads;
  for (Result<>& outcome : outcomes) threads.emplace_back([&] { run(outcome); });
  for (unsigned looks = 1; next < order.to; ++looks) {
    std::this_thread::sleep_for(kLook);
    if (looks % kTellEvery != 0) continue;
    fmt::print("{} of {} files\n", order.from + made, order.to);
    std::fflush(stdout);
  }
  threads.clear();
  for (Result<>& outcome : outcomes) {
    if (!outcome) return pass(outcome);
  }
  return {};
}

Result<> run(const Order& order) {
  auto store = open_rocks_kv({.path = order.folder, .sync = false, .clock = system_clock()});
  if (!store) return pass(store);
  auto names = Namespace::open(**store);
  if (!names) return pass(names);
  if (auto filled = fill(**names, order); !filled) return filled;
  names->reset();
  store->reset();
  const OwnedFd folder(::open(order.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::syncfs(folder.get()) != 0) return fail_errno(errno, "sync " + order.folder);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<std::uint64_t> given[3];
  for (int i = 0; i < 3 && argc == 6; ++i) given[i] = number(argv[3 + i]);
  if (!given[0] || *given[0] == 0 || !given[1] || !given[2]) {
    fmt::print(stderr, "usage: weft-meta-fill FOLDER PREFIX DIRECTORIES FROM TO\n");
    return 16;
  }
  const auto done = run({argv[1], argv[2], *given[0], *given[1], *given[2]});
  if (done) return 0;
  fmt::print(stderr, "weft-meta-fill: {}\n", done.error().describe());
  return 8;
}
