// What policy holds for a directory or a file of an export (layout/policy.h): what the namespace
// keeps of it, and the export's options for the keys that nobody set.
//
// A directory's policy may come from an export of another layout type on the same metadata store.
// What this one cannot do then says nothing here: the export's own holds.
//
// Threading: plain functions over the namespace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "layout/candidate.h"
#include "layout/policy.h"
#include "rpc/base/error.h"

namespace weft::mds {

// How the file's layout map is to be made, if there is none yet.
[[nodiscard]] Result<layout::PlacementPolicy> placement_for(const Namespace& names, FileId file,
                                                            const layout::PlacementPolicy& options);

// A key, what it is, and who said so.
struct PolicyKey {
  enum class From { kDirectory, kMadeWith, kLayout, kExport };
  std::string key;
  std::string value;
  From from = From::kExport;
  FileId dir = 0;  // kDirectory

  friend bool operator==(const PolicyKey&, const PolicyKey&) = default;
};

// What new files of a directory get; or what a file has: what its layout map says, or, without one,
// what it will get. Every key that has a meaning there. kWrongType for anything else.
[[nodiscard]] Result<std::vector<PolicyKey>> policy_keys(const Namespace& names,
                                                         const InodeAttributes& of,
                                                         const layout::PlacementPolicy& options);
// policy_keys() as text.
[[nodiscard]] Result<std::string> policy_text(const Namespace& names, const InodeAttributes& of,
                                              const layout::PlacementPolicy& options);

// What clients read of a file, and of a directory that has a policy of its own; kNotFound.
[[nodiscard]] Result<std::string> shown_policy(const Namespace& names, FileId file,
                                               const layout::PlacementPolicy& options);
// A client sets it, or, with an empty text, removes it: a directory's is its owner's or root's to
// change. A file's is fixed; what it has already may be set, for programs that copy attributes.
// kPermission; else as set_policy(), and as RFC 8276 section 8.4.2 has it for `how`.
[[nodiscard]] Result<> change_policy(Namespace& names, const Credentials& who, FileId file,
                                     std::string_view text, Namespace::XattrHow how,
                                     const layout::PlacementPolicy& options);

// Reads `text` and makes it the directory's own policy, in place of what it had; an empty one
// clears it. kInvalid naming the key that is wrong, or that this export cannot do; kNotDirectory.
[[nodiscard]] Result<InodeAttributes> set_policy(Namespace& names, FileId dir,
                                                 std::string_view text,
                                                 const layout::PlacementPolicy& options);

}  // namespace weft::mds
