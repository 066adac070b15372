// Moves: what has to hold still while a file's map gets another data server, or loses one.
#include "ganesha-fsal/files/file_data.h"
#include "layout/relocation.h"

namespace weft::mds {

Result<layout::LayoutMap> FileData::begin_move(FileId file, std::uint32_t from, std::uint32_t to) {
  if (auto whole = fit(file); !whole) return pass(whole);
  auto alone = be_alone(file, Phase::Alone::kMoving, Clock::duration::zero());
  if (!alone) return pass(alone);
  if (uncut(file)) return fail(Errc::kBusy, "an earlier truncate is still to be done");
  if (growing(file)) return fail(Errc::kBusy, "the file is on its way to its objects");
  return parts_.names.begin_move(file, from, to);
}

// Whoever gets a layout records it, and looks then whether somebody is alone with the file.
Result<Alone> FileData::hold_unused(FileId file, const layout::LayoutMap& map) {
  if (auto whole = fit(file); !whole) return pass(whole);
  auto alone = be_alone(file, Phase::Alone::kMoving, Clock::duration::zero(), IfAlone::kRefuse);
  if (!alone) return alone;
  const auto used = [&] {
    const FileTable::Looking record(parts_.files, file);
    return !record->others_idle() || record->phase.uncut || record->phase.growing;
  };
  if (used() || late(file, map)) return fail(Errc::kBusy, "the file is used");
  return alone;
}

bool FileData::being_written(FileId file) const {
  const Phase phase = FileTable::Looking(parts_.files, file)->phase;
  return phase.writing > 0 || phase.is_alone() || phase.uncut || phase.growing;
}

Result<> Mirrors::finish_move(FileId file) {
  auto before = map_of(file);
  if (!before) return pass(before);
  auto move = parts_.names.move_of(file);
  if (!move) return pass(move);
  if (!*move) return fail(Errc::kNotFound, "the file is not being moved");
  const auto seat = layout::seat_of(*before, (*move)->from);
  auto after = parts_.names.finish_move(file);
  if (!after) return pass(after);
  if (!seat) return fail(Errc::kCorrupt, "a move that does not fit the layout map");
  // Between the two, look() finds leaders that are not of the map, and says so.
  const FileTable::Changing record(parts_.files, file);
  MirrorState& state = record->mirrors;
  if (state.pins == 0 && state.leads.empty()) return {};
  const Renumbered renumbered{.epoch = after->object_epoch,
                              .stripe = seat->stripe,
                              .before = static_cast<std::uint8_t>(before->copies.size() - 1),
                              .after = static_cast<std::uint8_t>(seat->copy)};
  state.renumbered = renumbered;
  ++state.chosen;
  renumbered.apply(state.leads);
  return {};
}

}  // namespace weft::mds
