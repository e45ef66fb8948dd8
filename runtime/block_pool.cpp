#include "runtime/block_pool.h"

#include <mutex>
#include <vector>

namespace troupe {

struct BlockPool::Shelf {
  explicit Shelf(size_t keep_at_most) : keep(keep_at_most) {}
  const size_t keep;
  std::mutex mutex;
  std::vector<Array> blocks;
};

BlockPool::BlockPool(size_t keep) : shelf_(std::make_shared<Shelf>(keep)) {}

Array BlockPool::take(size_t bytes) {
  const Shape shape{static_cast<int64_t>(bytes)};
  Array block;
  {
    std::lock_guard lock(shelf_->mutex);
    std::erase_if(shelf_->blocks, [&](const Array& unused) { return unused.bytes() != bytes; });
    if (!shelf_->blocks.empty()) {
      block = std::move(shelf_->blocks.back());
      shelf_->blocks.pop_back();
    }
  }
  if (block.bytes() != bytes || bytes == 0) block = Array::uninitialized(DType::u8, shape);
  // The lent array owns a handle whose end puts the block back on the shelf, unless that is full or gone.
  std::byte* data = block.mutable_data();
  auto give_back = [block = std::move(block), weak = std::weak_ptr(shelf_)](std::byte*) mutable {
    const auto shelf = weak.lock();
    if (!shelf) return;
    std::lock_guard lock(shelf->mutex);
    if (shelf->blocks.size() < shelf->keep) shelf->blocks.push_back(std::move(block));
  };
  return Array::adopt(DType::u8, shape, std::shared_ptr<std::byte[]>(data, std::move(give_back)));
}

size_t BlockPool::unused() const {
  std::lock_guard lock(shelf_->mutex);
  return shelf_->blocks.size();
}

}  // namespace troupe
