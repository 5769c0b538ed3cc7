// Words for a subgroup: the work-items of a group that run in step, as many as the GPU decides. spec/wgsl translates them; the feature
// `subgroups` has the backends that know them.
#pragma once
// The sum of a float over the subgroup, for each of its work-items. All work-items of the group call it.
#define SUBGROUP_SUM(value) subgroup_sum(value)
// The number of this subgroup in its group, and the number of subgroups of a group.
#define SUBGROUP_NUMBER() subgroup_number()
#define SUBGROUP_COUNT() subgroup_count()
// The number of this work-item in its subgroup.
#define SUBGROUP_LANE() subgroup_lane()
