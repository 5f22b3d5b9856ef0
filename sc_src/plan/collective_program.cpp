#include <utility>

#include <tilewright/plan/collective_program.h>

#include "segment_writer.h"

namespace tilewright {

Program collective_program(const MachineConfig& machine, const std::vector<TileId>& tiles,
                           CollectiveKind kind, CollectiveAlgorithm algorithm, std::int64_t bytes) {
  const auto ranks = static_cast<int>(tiles.size());
  const std::vector<GroupAxis> axes{{"group", ranks}};
  Placement placement;
  placement.group = ranks;
  placement.tiles = tiles;
  CollectiveChoices choices;
  choices.set("", kind, {algorithm, "collective"});
  CollectiveMembers members(axes, placement, machine, choices);
  PeerTables peers(members);

  Residency residency;
  residency.in_sram.fill(true);
  Program program;
  SegmentWriter writer(program, to_string(kind), residency, DType::fp16, axes, peers);
  CollectiveRun run;
  run.name = to_string(kind);
  Collective what;
  what.kind = kind;
  what.axes = 1;
  what.bytes = kind == CollectiveKind::all_to_all ? bytes * ranks : bytes;
  const Access data{"data", TensorClass::temporary, bytes};
  writer.collective(run, what, data, data);

  TileGroup group;
  group.name = "group";
  group.tiles = tiles;
  group.calls.push_back({writer.finish()});
  peers.fill(group, placement, 0, 0);
  program.groups.push_back(std::move(group));
  program.channels = peers.channels();
  program.seal();
  return program;
}

}  // namespace tilewright
