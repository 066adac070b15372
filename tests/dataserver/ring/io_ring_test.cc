// A thread's ring, with io_uring and where it is forbidden.
#include "dataserver/ring/io_ring.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>

#include "tests/dataserver/io_thread.h"
#include "tests/dataserver/store/store_runner.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::IoThread;
using test::StoreRunner;
using test::TempFolder;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};

// This thread may not make a ring any more, as in a container.
void forbid_io_uring(int error) {
  const auto refused = static_cast<unsigned>(error);
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | refused),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(rules), .filter = static_cast<sock_filter*>(rules)};
  REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

// Runs the test on a thread of its own: what is forbidden to that stays so.
void with_and_without(const std::function<void()>& test) {
  const int error = GENERATE(0, EPERM, ENOSYS);
  CAPTURE(error);
  std::thread([&] {
    if (error != 0) forbid_io_uring(error);
    test();
  }).join();
}

TEST_CASE("a ring reads, writes and syncs, also where io_uring is forbidden") {
  with_and_without([] {
    const TempFolder folder;
    const OwnedFd file(::open((folder.path() + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(file.get() >= 0);
    IoThread thread;
    std::string text = "what is written";
    std::string got(100, '-');
    iovec from{text.data(), text.size()};
    iovec into{got.data(), got.size()};
    int written = 0;
    int synced = 1;
    int read = 0;
    thread.ring().writev(file.get(), {&from, 1}, 5, [&](int result) { written = result; });
    CHECK(written == 0);  // never from within the call
    CHECK_FALSE(thread.ring().idle());
    REQUIRE(thread.run_until([&] { return written != 0; }));
    CHECK(written == static_cast<int>(text.size()));
    thread.ring().fdatasync(file.get(), [&](int result) { synced = result; });
    thread.ring().readv(file.get(), {&into, 1}, 5, [&](int result) { read = result; });
    REQUIRE(thread.run_until([&] { return synced != 1 && read != 0; }));
    CHECK(synced == 0);
    CHECK(read == static_cast<int>(text.size()));
    CHECK(got.starts_with(text + "-"));
    CHECK(thread.ring().idle());
  });
}

TEST_CASE("what a ring cannot do is an errno, and more than it takes at once waits its turn") {
  with_and_without([] {
    IoThread thread;
    char byte = 0;
    iovec into{&byte, 1};
    constexpr int kMany = 2000;
    int refused = 0;
    for (int i = 0; i < kMany; ++i) {
      thread.ring().readv(-1, {&into, 1}, 0, [&](int result) { refused += result == -EBADF; });
    }
    REQUIRE(thread.run_until([&] { return refused == kMany; }));
    CHECK(thread.ring().idle());
  });
}

TEST_CASE("a ring may end as soon as it is idle") {
  with_and_without([] {
    for (int i = 0; i < 300; ++i) {
      IoThread thread;
      char byte = 0;
      iovec into{&byte, 1};
      bool done = false;
      thread.ring().readv(-1, {&into, 1}, 0, [&](int) { done = true; });
      REQUIRE(thread.run_until([&] { return done; }));
    }
  });
}

TEST_CASE("a store serves without io_uring") {
  with_and_without([] {
    const TempFolder folder;
    for (const IoMode mode : {IoMode::kBuffered, IoMode::kDirect}) {
      FileStoreOptions options;
      options.path = folder.path() + (mode == IoMode::kDirect ? "/direct" : "/buffered");
      options.mode = mode;
      StoreRunner runner(options);
      REQUIRE(runner.write(kObject, 100, std::string(100'000, 'x'), Stability::kFileSync));
      REQUIRE(runner.write(kObject, 0, std::string(100, 'y')));
      REQUIRE(runner.commit(kObject));
      CHECK(runner.text(kObject, 0, 200'000) == std::string(100, 'y') + std::string(100'000, 'x'));
    }
  });
}

}  // namespace
}  // namespace weft::ds
