#include "tools/weft/mountstats.h"

#include <charconv>
#include <sstream>

namespace weft::cli {
namespace {

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(std::move(word));
  return words;
}

// "device D mounted on M with fstype T statvers=1.1"; a D or M with blanks has them escaped.
bool parse_device(std::string_view line, MountStats& mount) {
  const auto words = words_of(line);
  if (words.size() < 8 || words[0] != "device" || words[2] != "mounted" || words[6] != "fstype") {
    return false;
  }
  mount.device = undo_escapes(words[1]);
  mount.mount_point = undo_escapes(words[4]);
  mount.fstype = words[7];
  return true;
}

// The value of "pnfs=" runs to the next comma and may have a blank in it ("not configured").
std::string pnfs_of(std::string_view line) {
  const auto at = line.find(",pnfs=");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + 6);
  return std::string(rest.substr(0, rest.find(',')));
}

void parse_line(std::string_view line, bool& in_ops, MountStats& mount) {
  const auto words = words_of(line);
  if (words.empty()) return;
  if (in_ops) {
    if (words.size() < 9 || words[0].back() != ':') return;
    const std::string name = words[0].substr(0, words[0].size() - 1);
    mount.ops[name] = {number(words[1]), words.size() > 9 ? number(words[9]) : 0};
  } else if (words[0] == "opts:" && words.size() > 1) {
    mount.options = words[1];
  } else if (words[0] == "nfsv4:") {
    mount.pnfs_driver = pnfs_of(line);
  } else if (words[0] == "events:" && words.size() >= 28) {
    mount.pnfs_reads = number(words[words.size() - 2]);
    mount.pnfs_writes = number(words[words.size() - 1]);
  } else if (words[0] == "per-op") {
    in_ops = true;
  }
}

}  // namespace

OpCount MountStats::op(std::string_view name) const {
  const auto found = ops.find(name);
  return found == ops.end() ? OpCount{} : found->second;
}

std::string MountStats::option(std::string_view name) const {
  std::string_view rest = options;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    if (item.size() > name.size() && item.starts_with(name) && item[name.size()] == '=') {
      return std::string(item.substr(name.size() + 1));
    }
  }
  return {};
}

std::vector<MountStats> parse_mountstats(std::string_view text) {
  std::vector<MountStats> mounts;
  bool in_nfs = false;
  bool in_ops = false;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (line.starts_with("device ")) {
      MountStats mount;
      in_nfs = parse_device(line, mount) && mount.fstype.starts_with("nfs");
      in_ops = false;
      if (in_nfs) mounts.push_back(std::move(mount));
    } else if (in_nfs) {
      parse_line(line, in_ops, mounts.back());
    }
  }
  return mounts;
}

const MountStats* mount_of(const std::vector<MountStats>& mounts, std::string_view path) {
  const MountStats* best = nullptr;
  for (const MountStats& mount : mounts) {
    std::string_view point = mount.mount_point;
    if (point == "/") point = {};
    const bool holds =
        path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
    if (holds && (best == nullptr || mount.mount_point.size() >= best->mount_point.size())) {
      best = &mount;
    }
  }
  return best;
}

std::string undo_escapes(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto digit = [&](std::size_t i) {
      return i < text.size() && text[i] >= '0' && text[i] <= '7';
    };
    if (text[at] == '\\' && digit(at + 1) && digit(at + 2) && digit(at + 3)) {
      out += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 +
                               (text[at + 3] - '0'));
      at += 3;
    } else {
      out += text[at];
    }
  }
  return out;
}

}  // namespace weft::cli
