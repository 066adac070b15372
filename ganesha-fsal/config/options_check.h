// Whether the FSAL blocks of a Ganesha configuration are right: every option is one that there is,
// given once, of the right kind and in its range, what is required is there, and no two contradict.
// What stands around them is looked at as far as ganesha_blocks.h goes.
//
// And the other way round: what options as they are look like in a file.
//
// The error is one line for an administrator: file, line, option, what may stand there, and the
// nearest option that there is.
//
// Threading: pure functions, but check_conf_file(), which reads files and asks the resolver.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/config/conf_reader.h"
#include "ganesha-fsal/config/options.h"
#include "layout/policy.h"
#include "rpc/base/error.h"

namespace weft::mds {

struct CheckedConf {
  std::size_t exports = 0;          // of FSAL WEFT
  std::vector<ConfStatement> keys;  // the Key_File of each
  std::vector<ConfStatement> addresses;
  std::vector<ConfStatement> hosts;  // by name, in CLIENT blocks: one each
  // What exports of a store have to say alike, as the first of each says it: by Metadata_Path, then
  // by option.
  std::map<std::string, std::map<std::string_view, ConfStatement>> stores;
  // What is no error and hardly what is meant: a line each, "FILE:LINE: what".
  std::vector<std::string> warnings;
};

enum class Ganesha : std::uint8_t { kToBeStarted, kRuns };

// Stops at the first error. kInvalid. What has to be said, but may stand in a file that %dir or
// %url brings, is not missed.
[[nodiscard]] Result<CheckedConf> check_conf(const ConfBlock& conf,
                                             Ganesha is = Ganesha::kToBeStarted);
// As well whether key files can be used, and names of addresses looked up, which is kUnreachable
// where nobody knows them now; and kNotFound, kAccess, kIo.
[[nodiscard]] Result<CheckedConf> check_conf_file(const std::string& path,
                                                  Ganesha is = Ganesha::kToBeStarted);

struct OptionValue {
  std::string_view name;
  std::string value;  // empty: none, or as the layout type has it
  std::string by_default;
};
// Whose options: an export's own, or those of the metadata server that exports share.
enum class OptionsOf { kExport, kServer };
[[nodiscard]] std::vector<OptionValue> option_values(const weft_options& options, OptionsOf whose);

// What the options say about new files.
[[nodiscard]] layout::Policy export_policy(const weft_options& options);
[[nodiscard]] layout::LayoutType layout_type(const weft_options& options);

}  // namespace weft::mds
