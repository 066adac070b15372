// Mover over a namespace in memory; copies are made by the Repairer with fake data servers.
#include <catch2/generators/catch_generators.hpp>

#include "tests/ganesha-fsal/repair/mover_fixture.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;
using layout::CopyState;

TEST_CASE_METHOD(MoverTest, "a drained server ends empty, and no stripe had a copy less") {
  std::vector<FileId> files;
  for (int i = 0; i < 100; ++i) {
    files.push_back(file(kRootFileId, "f" + std::to_string(i)));
    if (i % 2 == 0) layout_of(files.back(), {1, 2}, {3, 4});
    if (i % 2 == 1) layout_of(files.back(), {2});
  }
  drain(2);
  make();
  for (int i = 0; i < 400 && objects_at(2) > 0; ++i) {
    mover->turn();
    for (std::size_t at = 0; at < files.size(); ++at) {
      CHECK(current_copies(files[at], 0) >= (at % 2 == 0 ? 2 : 1));
      if (at % 2 == 0) CHECK(current_copies(files[at], 1) >= 2);
    }
    check_clean();
    mend_all();
    remove_queued();
  }
  CHECK(objects_at(2) == 0);
  CHECK(mover->moved() == 100);
  mover->turn();
  const auto leaving = mover->leaving();
  REQUIRE(leaving.size() == 1);
  CHECK(leaving[0].drained);
  CHECK(leaving[0].stuck.empty());
  CHECK(fences.size() == 100);
  CHECK(filled.size() >= 2);  // several destinations
  for (std::size_t at = 0; at < files.size(); ++at) {
    const auto map = **names->layout(files[at]);
    CHECK(map.copies.size() == (at % 2 == 0 ? 2 : 1));
    CHECK(map.copies[0].state == CopyState::kCurrent);
  }
  CHECK_FALSE(forgotten.contains(2));
}

TEST_CASE_METHOD(MoverTest, "at any point this server may be started again") {
  const FileId f = mirrored("f");
  drain(1);
  // Each round: a turn or two in a new run, then what data servers did meanwhile.
  for (int i = 0; i < 20 && objects_at(1) > 0; ++i) {
    mover.reset();
    open();
    make();
    mover->turn();
    check_clean();
    if (i % 3 == 2) mover->turn();  // what left is fenced in one, and removed in another
    check_clean();
    mover.reset();
    open();
    check_clean();
    make();
    if (i % 2 == 1) mend_all();
    remove_queued();
  }
  CHECK(objects_at(1) == 0);
  CHECK_FALSE(layout::seat_of(**names->layout(f), 1));
}

TEST_CASE_METHOD(MoverTest, "nothing is taken from the map while somebody still uses it") {
  const FileId f = mirrored("f");
  drain(1);
  make();
  mover->turn();
  CHECK(names->move_of(f)->has_value());
  CHECK(exclusions == 0);  // not before the successor is current
  mend_all();
  exclusion_waits = true;
  for (int i = 0; i < 5; ++i) mover->turn();
  CHECK(layout::seat_of(**names->layout(f), 1));
  CHECK(current_copies(f, 0) == 3);
  exclusion_waits = false;
  fences_answered = false;
  for (int i = 0; i < 5; ++i) mover->turn();
  CHECK_FALSE(layout::seat_of(**names->layout(f), 1));
  CHECK(names->pending_removals(std::nullopt, 10)->empty());  // before it is fenced there
  fences_answered = true;
  CHECK(empties(1));
}

TEST_CASE_METHOD(MoverTest, "an object that left is kept for as long as it may be read") {
  mirrored("f");
  drain(1);
  limits.linger = 1h;
  make();
  for (int i = 0; i < 10; ++i) {
    mover->turn();
    mend_all();
  }
  CHECK(names->moves(0, 10)->at(0).stage == MoveStage::kLeft);
  CHECK(names->pending_removals(std::nullopt, 10)->empty());
}

TEST_CASE_METHOD(MoverTest, "a successor that is lost is replaced, also when it was current") {
  for (const bool current : {false, true}) {
    const FileId f = mirrored(current ? "g" : "f");
    drain(1);
    make();
    exclusion_waits = current;
    for (int i = 0; i < 3 && !names->move_of(f)->has_value(); ++i) mover->turn();
    const std::uint32_t first = names->move_of(f)->value().to;
    if (current) mend_all();
    lose(first);
    lapsed = false;
    mover->turn();
    CHECK(names->move_of(f)->value().to == first);  // clients may still be served there
    lapsed = true;
    exclusion_waits = false;
    for (int i = 0; i < 50 && layout::seat_of(**names->layout(f), 1); ++i) {
      mover->turn();
      mend_all();
      remove_queued();
      known[first].reach = Reach::kHere;  // back, empty-handed
      known[first].candidate.state = layout::ServerState::kUp;
    }
    CHECK_FALSE(layout::seat_of(**names->layout(f), 1));
    check_clean();
    known[1].duty = Duty::kServing;
    known[1].candidate.state = layout::ServerState::kUp;
  }
}

TEST_CASE_METHOD(MoverTest, "what is not to be drained after all stays") {
  const FileId f = mirrored("f");
  drain(1);
  make();
  mover->turn();
  known[1].duty = Duty::kServing;
  known[1].candidate.state = layout::ServerState::kUp;
  mover->give_up(1);
  for (int i = 0; i < 5; ++i) {
    mover->turn();
    remove_queued();
  }
  CHECK_FALSE(names->move_of(f)->has_value());
  CHECK(layout::seat_of(**names->layout(f), 1));
  CHECK(current_copies(f, 0) == 2);
  check_clean();
}

TEST_CASE_METHOD(MoverTest, "what is not to be drained stays, also when a fence takes long") {
  const bool filled = GENERATE(false, true);  // the successor, meanwhile
  const FileId f = mirrored("f");
  drain(1);
  make();
  mover->turn();
  known[1].duty = Duty::kServing;
  known[1].candidate.state = layout::ServerState::kUp;
  mover->give_up(1);
  exclusion_waits = true;
  for (int i = 0; i < 3; ++i) {
    mover->turn();
    if (filled) mend_all();
  }
  REQUIRE(names->move_of(f)->has_value());
  exclusion_waits = false;
  for (int i = 0; i < 5; ++i) {
    mover->turn();
    mend_all();
    remove_queued();
  }
  CHECK(layout::seat_of(**names->layout(f), 1));
  CHECK_FALSE(names->move_of(f)->has_value());
  CHECK(current_copies(f, 0) == 2);
  SECTION("and is moved when it is drained once more") {
    drain(1);
    CHECK(empties(1));
  }
  check_clean();
}

TEST_CASE_METHOD(MoverTest, "of one that is gone for good the copies are made anew") {
  std::vector<FileId> files;
  for (int i = 0; i < 40; ++i) files.push_back(mirrored("f" + std::to_string(i)));
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f0"));  // it will never say that this is removed
  files.erase(files.begin());
  lose(3);
  lapsed = false;
  drain(3, Duty::kRemoving);
  known[3].candidate.state = layout::ServerState::kDown;
  make();
  mover->turn();
  CHECK(names->moves(0, 10)->empty());  // it may still serve clients
  lapsed = true;
  CHECK(empties(3));
  mover->turn();
  CHECK(forgotten.contains(3));
  for (const FileId f : files) {
    CHECK(current_copies(f, 0) == 2);
    CHECK(current_copies(f, 1) == 2);
  }
  check_clean();
}

TEST_CASE_METHOD(MoverTest, "one that stays away is replaced, unless more are away than a domain") {
  const FileId f = mirrored("f");
  limits.replace_after = 30min;
  lose(3, 29min);
  make();
  mover->turn();
  CHECK(names->moves(0, 10)->empty());
  lose(3, 30min);
  lose(4, 31min);
  mover->turn();
  CHECK(names->moves(0, 10)->empty());
  CHECK(mover->leaving().empty());
  known[4].candidate.domain = "d3";
  mover->turn();
  CHECK(exclusions > 0);  // before anything is filled: filling asks all current copies
  for (int i = 0; i < 20; ++i) {
    mend_all();
    mover->turn();
    remove_queued();
  }
  CHECK_FALSE(layout::seat_of(**names->layout(f), 3));
  CHECK_FALSE(layout::seat_of(**names->layout(f), 4));
  CHECK(objects_at(3) == 1);  // until it is back to remove it
  CHECK(forgotten.empty());
  CHECK(current_copies(f, 0) == 2);
}

TEST_CASE_METHOD(MoverTest, "what cannot be moved is told, with the reason") {
  const FileId f = mirrored("f");
  const FileId alone = file(kRootFileId, "alone");
  layout_of(alone, {3});
  lose(3);
  drain(3);
  known[3].candidate.state = layout::ServerState::kDown;
  for (const std::uint32_t id : {5U, 6U}) known[id].candidate.domain = "d1";
  make();
  for (int i = 0; i < 5; ++i) mover->turn();
  const auto leaving = mover->leaving();
  REQUIRE(leaving.size() == 1);
  CHECK(leaving[0].left == 2);
  CHECK(leaving[0].stuck.size() == 2);
  // And whose they are: an administrator may remove or restore these files.
  const auto named = [&](const std::string& why) {
    const auto found = leaving[0].stuck.find(why);
    return found == leaving[0].stuck.end() ? std::vector<FileId>() : found->second.first;
  };
  CHECK(named("no data server that is here has a current copy of them") == std::vector{alone});
  CHECK(named("the data servers that have room are in the failure domains of the other copies") ==
        std::vector{f});
  CHECK(layout::seat_of(**names->layout(f), 3));
  known[6].candidate.domain = "d6";
  for (int i = 0; i < 20; ++i) {
    mover->turn();
    mend_all();
  }
  CHECK_FALSE(layout::seat_of(**names->layout(f), 3));
  CHECK(layout::seat_of(**names->layout(alone), 3));
}

TEST_CASE_METHOD(MoverTest, "a data server that is lost is forgotten when its files are removed") {
  std::vector<FileId> alone;
  for (int i = 0; i < 3; ++i) {
    alone.push_back(file(kRootFileId, "f" + std::to_string(i)));
    layout_of(alone.back(), {3});
  }
  lose(3);
  known[3].duty = Duty::kRemoving;
  limits.most_named = 2;
  make();
  for (int i = 0; i < 5; ++i) mover->turn();
  REQUIRE(mover->leaving().size() == 1);
  REQUIRE(mover->leaving()[0].stuck.size() == 1);
  const Mover::Stuck stuck = mover->leaving()[0].stuck.begin()->second;
  CHECK(stuck.objects == 3);
  CHECK(stuck.first == std::vector{alone[0], alone[1]});
  CHECK(forgotten.empty());
  for (int i = 0; i < 3; ++i) {
    REQUIRE(names->remove(kSuperuser, kRootFileId, "f" + std::to_string(i)));
  }
  for (int i = 0; i < 20 && forgotten.empty(); ++i) mover->turn();
  CHECK(forgotten.size() == 1);
}

TEST_CASE_METHOD(MoverTest, "a file longer than any disk is moved by what is stored of it") {
  const FileId f = mirrored("f");
  AttributeChange change;
  change.size = std::uint64_t{1} << 50;
  REQUIRE(names->setattr(kSuperuser, f, change));
  drain(3);
  make();
  for (const auto& [stored, goes] : std::initializer_list<std::pair<Result<std::uint64_t>, bool>>{
           {fail(Errc::kUnreachable, "nobody answers"), false},
           {std::uint64_t{1} << 40, false},
           {std::uint64_t{1} << 20, true}}) {
    allocated = stored;
    for (int i = 0; i < 20; ++i) {
      mover->turn();
      mend_all();
    }
    CHECK(layout::seat_of(**names->layout(f), 3).has_value() != goes);
    if (goes) continue;
    CHECK(mover->leaving()[0].stuck.contains("no other data server that is up has room"));
  }
}

TEST_CASE_METHOD(MoverTest, "who asks how far a server is with being left lists no objects") {
  for (int i = 0; i < 10; ++i) layout_of(file(kRootFileId, "f" + std::to_string(i)), {1});
  drain(1);
  limits.at_once = 0;  // so that its list is not gone through
  limits.count_page = 4;
  make();
  const auto told = [this] {
    const auto leaving = mover->leaving();
    REQUIRE(leaving.size() == 1);
    return std::pair(leaving[0].left, leaving[0].drained);
  };
  CHECK(told() == std::pair(1UL, false));  // at least: nothing was counted yet
  for (const std::uint64_t counted : {4UL, 8UL, 10UL, 10UL}) {
    mover->turn();
    CHECK(told() == std::pair(counted, false));
    CHECK(told() == std::pair(counted, false));
  }
  // What the namespace has since is not looked at, and is counted with the list.
  layout_of(file(kRootFileId, "later"), {1});
  CHECK(told() == std::pair(10UL, false));
  mover->turn();
  CHECK(told() == std::pair(10UL, false));
  limits.at_once = 512;
  make();
  for (int i = 0; i < 3; ++i) mover->turn();
  CHECK(told() == std::pair(11UL, false));
}

TEST_CASE_METHOD(MoverTest, "what is left is what was counted, less what has moved since") {
  for (int i = 0; i < 10; ++i) layout_of(file(kRootFileId, "f" + std::to_string(i)), {1});
  drain(1);
  limits.linger = 1h;  // so that the list stays as long
  limits.look_every = 1h;
  make();
  mover->turn();
  CHECK(mover->leaving().at(0).left == 10);
  const auto left_after = [this](std::uint64_t moved) {
    for (int i = 0; i < 20 && mover->leaving().at(0).moved < moved; ++i) {
      mend_all();
      mover->turn();
    }
    return mover->leaving().at(0).left;
  };
  CHECK(left_after(10) == 1);  // until their objects are removed
  CHECK_FALSE(mover->leaving().at(0).drained);
  CHECK(mover->moved() == 10);
  limits.linger = {};
  limits.look_every = {};
  make();
  CHECK(empties(1));
  mover->turn();
  CHECK(mover->leaving().at(0).drained);
  CHECK(mover->leaving().at(0).left == 0);
}

TEST_CASE_METHOD(MoverTest, "no more at once than the limits say") {
  for (int i = 0; i < 60; ++i) mirrored("f" + std::to_string(i));
  drain(1);
  limits.at_once = 10;
  limits.per_server = 3;
  make();
  for (int i = 0; i < 5; ++i) mover->turn();
  std::map<std::uint32_t, int> to;
  const auto moves = *names->moves(0, 100);
  for (const Move& move : moves) ++to[move.to];
  CHECK(moves.size() == 6);  // 5 and 6 are the ones that have nothing of these files
  for (const auto& [ds_id, count] : to) CHECK(count <= 3);
  limits.per_server = 30;
  make();
  for (int i = 0; i < 5; ++i) mover->turn();
  CHECK(names->moves(0, 100)->size() == 10);
}

TEST_CASE_METHOD(MoverTest, "the steps of several moves are done at the same time") {
  for (int i = 0; i < 64; ++i) mirrored("f" + std::to_string(i));
  drain(1);
  exclusion_takes = 5ms;
  make();
  CHECK(empties(1));
  CHECK(most_excluding >= 8);
  CHECK(most_excluding <= static_cast<int>(limits.threads));
  check_clean();
}

TEST_CASE_METHOD(MoverTest, "what left and is kept for a while does not hold up the others") {
  constexpr std::size_t kFiles = 2500;
  for (std::size_t i = 0; i < kFiles; ++i) mirrored("f" + std::to_string(i));
  drain(1);
  limits.linger = 1h;
  make();
  for (int i = 0; i < 40 && mover->moved() < kFiles; ++i) {
    mover->turn();
    mend_all();
  }
  CHECK(mover->moved() == kFiles);
  CHECK(names->pending_removals(std::nullopt, 10)->empty());
}

TEST_CASE_METHOD(MoverTest, "of large files few are under way") {
  std::vector<FileId> files;
  for (int i = 0; i < 60; ++i) {
    files.push_back(mirrored("f" + std::to_string(i)));
    REQUIRE(names->grow_size({.id = files.back(), .end = std::uint64_t{1} << 29}));
  }
  for (auto& [id, server] : known) {
    server.candidate.capacity_bytes = std::uint64_t{1} << 40;
    server.candidate.free_bytes = std::uint64_t{1} << 39;
  }
  drain(1);
  limits.large_at_once = 5;
  limits.large_per_server = 3;
  make();
  for (int i = 0; i < 5; ++i) mover->turn();
  std::map<std::uint32_t, int> to;
  for (const Move& move : *names->moves(0, 100)) ++to[move.to];
  CHECK(names->moves(0, 100)->size() == 5);
  for (const auto& [ds_id, count] : to) CHECK(count <= 3);
}

TEST_CASE_METHOD(MoverTest, "what is coming takes room: who waits for it holds up nobody") {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto put = [this](const std::string& name, std::uint64_t size) {
    const FileId made = file(kRootFileId, name);
    layout_of(made, {1});
    REQUIRE(names->grow_size({.id = made, .end = size}));
    return made;
  };
  const auto has_left = [this](FileId id) { return names->move_of(id)->has_value(); };
  std::vector<FileId> large;
  for (int i = 0; i < 6; ++i) large.push_back(put("f" + std::to_string(i), 200 * kMiB));
  const FileId small = put("small", 30 * kMiB);
  const auto free = [this](std::uint64_t bytes) {
    for (auto& [id, server] : known) server.candidate.free_bytes = bytes;
  };
  free(limits.reserve_bytes + 230 * kMiB);
  drain(1);
  limits.linger = 1h;
  make();
  for (int i = 0; i < 3; ++i) mover->turn();
  std::map<std::uint32_t, int> to;
  for (const Move& move : *names->moves(0, 100)) ++to[move.to];
  CHECK(to.size() == 5);
  CHECK(std::ranges::count_if(large, has_left) == 5);
  CHECK(has_left(small));
  CHECK(mover->leaving()[0].stuck.empty());
  SECTION("they go on in another run") {
    make();
    for (int i = 0; i < 3; ++i) mover->turn();
    CHECK(std::ranges::count_if(large, has_left) == 5);
  }
  mend_all();
  SECTION("now that it is there, there is none left") {
    free(limits.reserve_bytes + 30 * kMiB);
    for (int i = 0; i < 3; ++i) mover->turn();
    CHECK(std::ranges::count_if(large, has_left) == 5);
    CHECK(mover->leaving()[0].stuck.contains("no other data server that is up has room"));
  }
  free(limits.reserve_bytes + 200 * kMiB);
  for (int i = 0; i < 3; ++i) mover->turn();
  CHECK(std::ranges::count_if(large, has_left) == 6);
}

TEST_CASE_METHOD(MoverTest, "a successor in the place of a third copy is filled, too") {
  std::vector<FileId> files;
  for (int i = 0; i < 5; ++i) {
    files.push_back(tripled("f" + std::to_string(i)));
    REQUIRE(names->grow_size({.id = files.back(), .end = 200U << 20}));
  }
  for (auto& [id, server] : known) {
    server.candidate.free_bytes = limits.reserve_bytes + (300U << 20);
  }
  drain(2);
  const bool few = GENERATE(false, true);
  if (few) {
    limits.large_at_once = 1;
    limits.bytes = 100U << 20;
  }
  make();
  const auto left = [&] {
    return std::ranges::count_if(
        files, [&](FileId f) { return !layout::seat_of(**names->layout(f), 2).has_value(); });
  };
  const auto turns = [&] {
    for (int i = 0; i < 5; ++i) {
      mover->turn();
      remove_queued();
    }
  };
  turns();
  CHECK(names->moves(0, 10)->empty());  // they have ended, and nothing has come yet
  CHECK(left() == (few ? 1 : 3));
  const auto set_all = [this](Reach reach, layout::ServerState state) {
    for (const std::uint32_t id : {4U, 5U, 6U}) {
      known[id].reach = reach;
      known[id].candidate.state = state;
    }
  };
  set_all(Reach::kGone, layout::ServerState::kDown);
  turns();
  set_all(Reach::kHere, layout::ServerState::kUp);
  turns();
  CHECK(left() == (few ? 1 : 3));
  mend_all();
  turns();
  CHECK(left() == (few ? 2 : 5));
}

TEST_CASE_METHOD(MoverTest, "a successor that can be filled from nowhere holds up nobody") {
  const FileId large = tripled("large");
  REQUIRE(names->grow_size({.id = large, .end = 200U << 20}));
  drain(2);
  limits.large_at_once = 1;
  limits.bytes = 100U << 20;
  make();
  mover->turn();
  REQUIRE_FALSE(layout::seat_of(**names->layout(large), 2));
  const FileId other = file(kRootFileId, "other");
  layout_of(other, {2});
  mover->turn();
  CHECK_FALSE(names->move_of(other)->has_value());
  for (const std::uint32_t id : {1U, 3U}) {
    known[id].reach = Reach::kGone;
    known[id].duty = Duty::kRemoving;
    known[id].candidate.state = layout::ServerState::kDown;
  }
  for (int i = 0; i < 3; ++i) mover->turn();
  CHECK(names->move_of(other)->has_value());
}

TEST_CASE_METHOD(MoverTest, "moves of an earlier run go on, however many there are") {
  for (int i = 0; i < 50; ++i) mirrored("f" + std::to_string(i));
  drain(1);
  make();
  mover->turn();
  REQUIRE(names->moves(0, 100)->size() == 50);
  limits.known = 7;
  make();
  CHECK(empties(1));
  CHECK(names->moves(0, 100)->empty());
  check_clean();
}

TEST_CASE_METHOD(MoverTest, "a fourth copy has no room: the third is left first, then made anew") {
  const FileId f = tripled("f");
  drain(2);
  make();
  mover->turn();
  CHECK_FALSE(layout::seat_of(**names->layout(f), 2));
  CHECK(current_copies(f, 0) == 2);
  CHECK(empties(2));
  CHECK(current_copies(f, 0) == 3);
}

TEST_CASE_METHOD(MoverTest, "a third copy is not left while another is to be repaired") {
  const FileId f = tripled("f");
  REQUIRE(exclude(f, 1));
  drain(2);
  make();
  const bool away = GENERATE(false, true);  // once it is repaired
  for (int i = 0; i < 3; ++i) mover->turn();
  CHECK(layout::seat_of(**names->layout(f), 2));
  CHECK(current_copies(f, 0) == 2);
  CHECK(mover->leaving()[0].stuck.contains("other copies of them are still to be repaired"));
  if (away) known[3].reach = Reach::kWait;
  mend_all();
  for (int i = 0; i < 3; ++i) mover->turn();
  CHECK(layout::seat_of(**names->layout(f), 2).has_value() == away);
  known[3].reach = Reach::kHere;
  CHECK(empties(2));
  CHECK(mover->leaving()[0].stuck.empty());
}

TEST_CASE_METHOD(MoverTest, "a file whose copies differ stays until somebody has decided") {
  const FileId f = mirrored("f");
  const FileId g = mirrored("g");
  differing = {f};
  unused = GENERATE(false, true);
  drain(2);
  make();
  for (int i = 0; i < 20; ++i) {
    mover->turn();
    mend_all();
    remove_queued();
  }
  CHECK(layout::seat_of(**names->layout(f), 2));
  CHECK_FALSE(layout::seat_of(**names->layout(g), 2));
  const auto stuck = mover->leaving()[0].stuck;
  REQUIRE(stuck.size() == 1);
  CHECK(stuck.begin()->second.first == std::vector{f});
  SECTION("which he does") { differing.clear(); }
  SECTION("or one of them is lost") {
    lose(2);
    mover->turn();
    CHECK(layout::seat_of(**names->layout(f), 2));
    drain(2, Duty::kRemoving);
  }
  for (int i = 0; i < 50 && layout::seat_of(**names->layout(f), 2); ++i) {
    mover->turn();
    mend_all();
    remove_queued();
  }
  CHECK_FALSE(layout::seat_of(**names->layout(f), 2));
}

TEST_CASE_METHOD(MoverTest, "a move whose only source is lost is given up, and told") {
  const FileId f = file(kRootFileId, "f");
  layout_of(f, {1});
  drain(1, Duty::kRemoving);
  make();
  mover->turn();
  REQUIRE(names->move_of(f)->has_value());
  // It may be back.
  drain(1, Duty::kDraining);
  lose(1);
  for (int i = 0; i < 3; ++i) mover->turn();
  CHECK(names->move_of(f)->has_value());
  drain(1, Duty::kRemoving);
  for (int i = 0; i < 5; ++i) mover->turn();
  CHECK_FALSE(names->move_of(f)->has_value());
  REQUIRE(mover->leaving()[0].stuck.size() == 1);
  CHECK(mover->leaving()[0].stuck.begin()->second.first == std::vector{f});
}

TEST_CASE_METHOD(MoverTest, "with the Repairer, all threads running") {
  std::vector<FileId> files;
  for (int i = 0; i < 80; ++i) files.push_back(mirrored("f" + std::to_string(i)));
  drain(1);
  limits = {.look_every = 20ms, .rest = 5ms, .linger = 1ms};
  limits.round = limits.idle = 2ms;
  make();
  start();
  mover->start();
  CHECK(soon([&] {
    return std::ranges::none_of(
        files, [&](FileId f) { return layout::seat_of(**names->layout(f), 1).has_value(); });
  }));
  mover->stop();
  for (const FileId f : files) CHECK(current_copies(f, 0) == 2);
  check_clean();
}

TEST_CASE_METHOD(MoverTest, "small files that nobody uses go directly, many at once") {
  std::vector<FileId> files;
  for (int i = 0; i < 50; ++i) files.push_back(mirrored("f" + std::to_string(i)));
  unused = true;
  limits.direct = 20;
  drain(2);
  make();
  mover->turn();
  CHECK(mover->moved() == 50);
  CHECK(held == 0);
  {
    const MutexLock lock(mutex_of_copies);
    CHECK(copies.size() == 50);
    CHECK(most_held >= 20);
    CHECK(most_held <= 40);
    CHECK(std::get<1>(copies[0]) == 2);
  }
  for (const FileId f : files) {
    CHECK_FALSE(layout::seat_of(**names->layout(f), 2));
    CHECK(current_copies(f, 1) == 2);
  }
  CHECK(names->stale_counts().empty());
  CHECK(exclusions == 0);
  CHECK(filled.empty());
  check_clean();
  CHECK(objects_at(2) == 50);
  CHECK(empties(2));
  CHECK(fences.size() == 50);
  CHECK(std::ranges::all_of(fences, [](const auto& fence) { return fence.first == 2; }));
  check_clean();
}

TEST_CASE_METHOD(MoverTest, "what cannot be copied directly is moved as any file") {
  const FileId f = mirrored("f");
  const FileId g = mirrored("g");
  unused = true;
  uncopied = {f};
  drain(2);
  make();
  mover->turn();
  CHECK(layout::seat_of(**names->layout(f), 2));
  CHECK_FALSE(layout::seat_of(**names->layout(g), 2));
  // What has come to the successor is removed first.
  const auto left = names->move_of(f)->value();
  CHECK(left.stage == MoveStage::kLeft);
  CHECK(left.to == 0);
  CHECK_FALSE(layout::seat_of(**names->layout(f), left.from));
  SECTION("in this run") {}
  SECTION("after a restart") {
    mover.reset();
    open();
    unused = false;
    make();
  }
  CHECK(empties(2));
  CHECK_FALSE(layout::seat_of(**names->layout(f), 2));
  CHECK(current_copies(f, 1) == 2);
  CHECK(std::ranges::count(fences, f, [](const auto& fence) { return fence.second; }) == 2);
  CHECK(filled.size() == 1);
  check_clean();
}

TEST_CASE_METHOD(MoverTest, "not directly: a large file, or off one that is not current or here") {
  const FileId f = mirrored("f");
  unused = true;
  drain(2);
  SECTION("a large file") {
    AttributeChange change;
    change.size = limits.direct_bytes + 1;
    REQUIRE(names->setattr(kSuperuser, f, change));
  }
  SECTION("not current") { REQUIRE(exclude(f, 2)); }
  SECTION("not here") { lose(2); }
  make();
  mover->turn();
  const MutexLock lock(mutex_of_copies);
  CHECK(copies.empty());
  CHECK(names->move_of(f)->value().stage == MoveStage::kFilling);
}
