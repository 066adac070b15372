#include "rpc/base/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "rpc/base/assert.h"
#include "rpc/base/mutex.h"
#include "rpc/base/payload_copy.h"
#include "rpc/base/shared_memory.h"

namespace weft {

struct Buffer::Block {
  BufferPool* pool;
  std::byte* memory;
  std::size_t capacity;
  int size_class;  // index into kBlockSizes, -1 for a block that is not kept
  std::atomic<std::uint32_t> handles{1};
  std::move_only_function<void()> gone{};  // of a foreign block, which has no pool
};

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kClasses = std::size(BufferPool::kBlockSizes);

std::size_t round_to_page(std::size_t size) { return (size + kPage - 1) & ~(kPage - 1); }

int class_for(std::size_t size) {
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (size <= BufferPool::kBlockSizes[i]) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

struct BufferPool::Impl {
  struct FreeList {
    Mutex mutex;
    std::vector<Buffer::Block*> blocks WEFT_GUARDED_BY(mutex);
  };
  std::array<FreeList, kClasses> free;
  std::atomic<std::size_t> in_use{0};
};

Buffer::Buffer(Buffer&& other) noexcept
    : block_(std::exchange(other.block_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    reset();
    block_ = std::exchange(other.block_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Result<Buffer> Buffer::share(std::size_t offset, std::size_t size) const {
  if (offset > size_ || size > size_ - offset) return fail(Errc::kInvalid, "slice of a buffer");
  if (block_ == nullptr) return Buffer{};
  block_->handles.fetch_add(1, std::memory_order_relaxed);
  return Buffer{block_, data_ + offset, size};
}

void Buffer::truncate(std::size_t size) {
  WEFT_ASSERT(size <= size_);
  size_ = size;
}

bool Buffer::unique() const {
  return block_ == nullptr || block_->handles.load(std::memory_order_acquire) == 1;
}

void Buffer::reset() {
  if (block_ != nullptr && block_->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    if (block_->pool != nullptr) {
      block_->pool->release(block_);
    } else {
      const std::unique_ptr<Block> block(block_);
      block->gone();
    }
  }
  block_ = nullptr;
  data_ = nullptr;
  size_ = 0;
}

Buffer Buffer::foreign(std::span<std::byte> bytes, std::move_only_function<void()> gone) {
  auto* block = new Block{nullptr, bytes.data(), bytes.size(), -1, 1, std::move(gone)};
  return Buffer{block, bytes.data(), bytes.size()};
}

BufferPool::BufferPool(std::size_t limit_bytes) : BufferPool(limit_bytes, nullptr) {}

BufferPool::BufferPool(std::size_t limit_bytes, std::shared_ptr<Arena> arena)
    : limit_(limit_bytes), arena_(std::move(arena)), impl_(std::make_unique<Impl>()) {}

BufferPool::~BufferPool() {
  WEFT_ASSERT(impl_->in_use.load() == 0);
  drop_idle_blocks();
}

Buffer::Block* BufferPool::make_block(std::size_t capacity, int size_class) {
  void* memory = nullptr;
  if (arena_ == nullptr) {
    memory = ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
  } else {
    memory = arena_->take(capacity);
    if (memory == nullptr) {
      drop_idle_blocks();  // blocks of other sizes may fill it
      memory = arena_->take(capacity);
    }
    if (memory == nullptr) return nullptr;
  }
  return new Buffer::Block{this, static_cast<std::byte*>(memory), capacity, size_class};
}

void BufferPool::unmake_block(Buffer::Block* block) {
  if (arena_ == nullptr) {
    ::munmap(block->memory, block->capacity);
  } else {
    arena_->give(block->memory, block->capacity);
  }
  delete block;
}

void BufferPool::drop_idle_blocks() {
  for (auto& list : impl_->free) {
    const MutexLock lock(list.mutex);
    for (Buffer::Block* block : list.blocks) unmake_block(block);
    list.blocks.clear();
  }
}

Result<Buffer> BufferPool::allocate(std::size_t size) {
  if (size > limit_) return fail(Errc::kTooLarge, "buffer larger than the pool");
  const int size_class = class_for(size);
  const std::size_t capacity = size_class >= 0 ? kBlockSizes[size_class] : round_to_page(size);
  if (!charge(capacity)) return fail(Errc::kBusy, "buffer pool exhausted");
  Buffer::Block* block = nullptr;
  if (size_class >= 0) {
    auto& list = impl_->free[static_cast<std::size_t>(size_class)];
    const MutexLock lock(list.mutex);
    if (!list.blocks.empty()) {
      block = list.blocks.back();  // the one used last: its pages are warm in the cache
      list.blocks.pop_back();
    }
  }
  if (block != nullptr) {
    block->handles.store(1, std::memory_order_relaxed);
  } else {
    block = make_block(capacity, size_class);
  }
  if (block == nullptr) {
    discharge(capacity);
    return fail(Errc::kBusy, "out of memory for a buffer");
  }
  return Buffer{block, block->memory, size};
}

void BufferPool::release(Buffer::Block* block) {
  discharge(block->capacity);
  const bool retired = arena_ != nullptr && arena_->is_retired(block->memory, block->capacity);
  if (block->size_class >= 0 && !retired) {
    auto& list = impl_->free[static_cast<std::size_t>(block->size_class)];
    const MutexLock lock(list.mutex);
    if ((list.blocks.size() + 1) * block->capacity <= limit_ / 2) {
      list.blocks.push_back(block);
      return;
    }
  }
  unmake_block(block);
}

bool BufferPool::charge(std::size_t bytes) {
  if (impl_->in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit_) return true;
  discharge(bytes);
  return false;
}

void BufferPool::discharge(std::size_t bytes) {
  impl_->in_use.fetch_sub(bytes, std::memory_order_relaxed);
}

std::size_t BufferPool::in_use_bytes() const {
  return impl_->in_use.load(std::memory_order_relaxed);
}

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) ::close(fd_);
}

std::size_t size_of(const Payload::Piece& piece) {
  return std::visit(
      [](const auto& p) -> std::size_t {
        if constexpr (requires { p.size(); }) {
          return p.size();
        } else {
          return p.size;
        }
      },
      piece);
}

void Payload::append(Piece piece) {
  size_ += size_of(piece);
  pieces_.push_back(std::move(piece));
}

Payload Payload::share() const {
  Payload out;
  out.may_ = may_;
  for (const Piece& piece : pieces_) {
    if (const auto* buffer = std::get_if<Buffer>(&piece)) {
      auto shared = buffer->share(0, buffer->size());
      WEFT_ASSERT(shared.has_value());
      out.append(std::move(*shared));
    } else if (const auto* range = std::get_if<FileRange>(&piece)) {
      out.append(*range);
    } else {
      out.append(std::get<ZeroRange>(piece));
    }
  }
  return out;
}

Result<std::vector<std::byte>> Payload::flatten() const {
  std::vector<std::byte> out(size_);
  if (auto copied = copy_payload(*this, out); !copied) return pass(copied);
  return out;
}

}  // namespace weft
