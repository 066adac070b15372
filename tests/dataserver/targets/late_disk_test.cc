// A disk that writes on behalf of a process that is gone: with an io_uring's registered buffers,
// whose pages the kernel keeps as it does for direct I/O that is under way.
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "rpc/base/shared_memory.h"
#include "tests/dataserver/temp_folder.h"

using namespace weft;

TEST_CASE("what a disk writes late into memory that was lent is in nobody's memory") {
  constexpr std::size_t kSize = 4 * SharedMemory::kPage;
  const test::TempFolder folder;
  const OwnedFd file(::open((folder.path() + "/object").c_str(), O_RDWR | O_CREAT, 0600));
  const std::vector<char> disk(kSize, 'd');
  REQUIRE(::pwrite(file.get(), disk.data(), kSize, 0) == ssize_t{kSize});

  auto arena = std::make_shared<Arena>(SharedMemory::create(64 * SharedMemory::kPage, "t").value());
  BufferPool pool(64 * SharedMemory::kPage, arena);
  auto room = pool.allocate(kSize).value();
  std::memset(room.data(), 'r', kSize);
  // The target's mapping of it.
  auto theirs = SharedMemory::adopt(OwnedFd(::fcntl(arena->memory()->fd(), F_DUPFD_CLOEXEC, 0)),
                                    arena->memory()->size())
                    .value();
  iovec pinned{theirs->base() + (room.data() - arena->memory()->base()), kSize};
  io_uring ring{};
  REQUIRE(io_uring_queue_init(4, &ring, 0) == 0);
  REQUIRE(io_uring_register_buffers(&ring, &pinned, 1) == 0);
  const auto late_read = [&] {
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring);
    io_uring_prep_read_fixed(sqe, file.get(), pinned.iov_base, kSize, 0, 0);
    REQUIRE(io_uring_submit_and_wait(&ring, 1) == 1);
    io_uring_cqe* cqe = nullptr;
    REQUIRE(io_uring_wait_cqe(&ring, &cqe) == 0);
    CHECK(cqe->res == int{kSize});
    io_uring_cqe_seen(&ring, cqe);
  };
  late_read();
  REQUIRE(room.data()[0] == std::byte{'d'});  // this is how it gets there

  arena->retire(room.span());
  const std::byte* const memory = room.data();
  room.reset();
  auto next = pool.allocate(kSize).value();
  REQUIRE(next.data() == memory);
  std::memset(next.data(), 'n', kSize);
  late_read();
  const std::vector<char> expected(kSize, 'n');
  CHECK(std::memcmp(next.data(), expected.data(), kSize) == 0);
  io_uring_queue_exit(&ring);
}
