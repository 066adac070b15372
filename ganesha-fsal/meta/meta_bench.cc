// weft-meta-bench: operations a second of the namespace over RocksDB, for one directory and for one
// directory for each thread. Not installed; for finding out what a change costs.
//
// usage: weft-meta-bench FOLDER [THREADS [SECONDS [sync|nosync]]]
#include <spdlog/fmt/fmt.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "ganesha-fsal/meta/ops/namespace.h"

namespace {

using namespace weft;
using namespace weft::mds;
using Steady = std::chrono::steady_clock;

struct Setup {
  int threads = 8;
  double seconds = 3;
};

// Calls `body(thread, n)` in every thread until the time is over; prints calls a second.
template <class Body>
void measure(std::string_view what, const Setup& setup, Body body) {
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> done = 0;
  std::atomic<std::uint64_t> failed = 0;
  const auto start = Steady::now();
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < setup.threads; ++thread) {
    threads.emplace_back([&, thread] {
      std::uint64_t n = 0;
      for (; !stop; ++n) {
        if (!body(thread, n)) ++failed;
      }
      done += n;
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(setup.seconds));
  stop = true;
  threads.clear();
  const std::chrono::duration<double> took = Steady::now() - start;
  fmt::print("{:<34} {:>9.0f}/s  threads={} failed={}\n", what,
             static_cast<double>(done) / took.count(), setup.threads, failed.load());
}

std::string name_of(int thread, std::uint64_t n) { return fmt::format("{}.{}", thread, n); }

Result<layout::LayoutMap> over_four(const InodeAttributes&) {
  layout::LayoutMap map;
  map.stripe_unit = 1 << 20;
  map.copies = {{layout::CopyState::kCurrent, 0, {1, 2, 3, 4}}};
  return map;
}

int run(Namespace& names, const Setup& setup) {
  auto shared = names.mkdir(kSuperuser, kRootFileId, "shared", {});
  if (!shared) return 1;
  const FileId dir = shared->attributes.id;
  std::vector<FileId> own;
  for (int thread = 0; thread < setup.threads; ++thread) {
    auto made = names.mkdir(kSuperuser, kRootFileId, name_of(thread, 0), {});
    if (!made) return 1;
    own.push_back(made->attributes.id);
  }
  const auto at = [&](int thread) { return own[static_cast<std::size_t>(thread)]; };
  measure("create, one directory", setup, [&](int thread, std::uint64_t n) {
    return names.create(kSuperuser, dir, name_of(thread, n), {}).has_value();
  });
  measure("create, a directory each", setup, [&](int thread, std::uint64_t n) {
    return names.create(kSuperuser, at(thread), name_of(thread, n), {}).has_value();
  });
  measure("create + layout", setup, [&](int thread, std::uint64_t n) {
    const auto made = names.create(kSuperuser, at(thread), "l" + name_of(thread, n), {});
    return made && names.ensure_layout(made->attributes.id, over_four).has_value();
  });
  measure("create + layout in the journal", setup, [&](int thread, std::uint64_t n) {
    thread_local std::vector<FileId> written;  // ended in batches, as a sweep does
    const auto made = names.create(kSuperuser, at(thread), "j" + name_of(thread, n), {});
    if (!made || !names.begin_writing(made->attributes.id, over_four)) return false;
    written.push_back(made->attributes.id);
    if (written.size() < 1000) return true;
    return names.end_writing(std::exchange(written, {})).has_value();
  });
  measure("lookup, a directory each", setup, [&](int thread, std::uint64_t n) {
    return names.lookup(at(thread), name_of(thread, n % 1000)).has_value();
  });
  measure("getattr, one inode", setup,
          [&](int, std::uint64_t) { return names.getattr(dir).has_value(); });
  measure("readdir, 100 entries + attributes", setup, [&](int thread, std::uint64_t) {
    return names.readdir(at(thread), 0, 100, true).has_value();
  });
  measure("grow, a file each", setup, [&](int thread, std::uint64_t n) {
    const auto file = names.lookup(at(thread), name_of(thread, 0));
    return file && names.grow_size({.id = file->id, .end = n}).has_value();
  });
  measure("remove, one directory", setup, [&](int thread, std::uint64_t n) {
    const auto removed = names.remove(kSuperuser, dir, name_of(thread, n));
    return removed.has_value() || removed.error().code == Errc::kNotFound;
  });
  measure("readdir, one directory, most removed", setup,
          [&](int, std::uint64_t) { return names.readdir(dir, 0, 100, true).has_value(); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: weft-meta-bench FOLDER [THREADS [SECONDS [sync|nosync]]]\n");
    return 16;
  }
  Setup setup;
  if (argc > 2) setup.threads = std::atoi(argv[2]);
  if (argc > 3) setup.seconds = std::atof(argv[3]);
  const bool sync = argc <= 4 || std::string_view(argv[4]) != "nosync";
  auto store = open_rocks_kv({.path = argv[1], .sync = sync, .clock = system_clock()});
  if (!store) {
    fmt::print(stderr, "{}\n", store.error().describe());
    return 8;
  }
  auto names = Namespace::open(**store);
  if (!names) {
    fmt::print(stderr, "{}\n", names.error().describe());
    return 8;
  }
  return run(**names, setup);
}
