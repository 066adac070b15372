// Changes of objects at data servers that were given up and may be carried out yet: nobody else
// changes such an object there until they are known to have ended. What is written is known to have
// by the session (proxy/server_sessions.h), what is cut or made a hole by a fence (object_calls.h).
//
// Threading: GivenUp any; a Change by one thread at a time.
//
// Ownership: each Change keeps its GivenUp.
//
// Invariant: has() is true of a place as long as a Change of it is there that was given up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "layout/object_id.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class GivenUp {
 public:
  using Where = std::pair<std::uint32_t, layout::ObjectId>;  // data server and object

  [[nodiscard]] bool has(const Where& where) const;

  // One that was sent, and may be carried out for as long as this is kept.
  class Change {
   public:
    Change(std::shared_ptr<GivenUp> all, const Where& where)
        : all_(std::move(all)), where_(where) {}
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    ~Change();
    // Nobody waits for its answer any more. Said twice is said once.
    void give_up();

   private:
    const std::shared_ptr<GivenUp> all_;
    const Where where_;
    bool given_up_ = false;
  };

 private:
  void add(const Where& where);
  void settled(const Where& where);

  mutable Mutex mutex_;
  std::map<Where, std::size_t> changes_ WEFT_GUARDED_BY(mutex_);  // how many of each
};

}  // namespace weft::mds
