// Where tests make a store's disk fail: points in the code that asks for I/O.
//
// A store without a Faults, as every program's is, does not fail on purpose. The answers are errno
// values, 0 for none.
//
// Threading: called on any I/O or worker thread, at any time.
#pragma once

#include <cstdint>

#include "layout/object_id.h"

namespace weft::ds {

class Faults {
 public:
  Faults() = default;
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  virtual ~Faults() = default;

  // Instead of writing; asked again for each part that the kernel takes of a write.
  virtual int write_error(const layout::ObjectId& /*object*/, std::uint64_t /*offset*/) {
    return 0;
  }
  // Instead of reading from [offset, ...).
  virtual int read_error(const layout::ObjectId& /*object*/, std::uint64_t /*offset*/) { return 0; }
  // After syncing an object's data, and after syncing its directory entry.
  virtual int sync_error(const layout::ObjectId& /*object*/) { return 0; }
  virtual int entry_sync_error(const layout::ObjectId& /*object*/) { return 0; }
  // Whether objects may be read and written past the store, where none of this is asked.
  [[nodiscard]] virtual bool allows_past() const { return false; }
  // After syncing what was written so.
  virtual int past_sync_error() { return 0; }
};

}  // namespace weft::ds
