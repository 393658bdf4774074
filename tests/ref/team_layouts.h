/* Trainings on four ranks in many layouts, compared with the same training on one rank. */
#ifndef TESTS_REF_TEAM_LAYOUTS_H
#define TESTS_REF_TEAM_LAYOUTS_H

#include "ref/team.h"

/* Tensor parallelism, context parallelism and pipelines; the last one is a pipeline of four stages. */
enum { TEAM_LAYOUTS = 6 };
extern const struct layout team_layouts[TEAM_LAYOUTS];

/* As layout_is_equal, with bound_f32. With `reports` rank 0 prints the distances if they are not equal. */
bool layout_is_near(struct comm *comm, struct executor *executor, const struct layout *layout, const struct form *form,
                    const struct run_outcome *alone, bool reports);

/* Return whether the training is the same in all shardings over 2 and 4 ranks, and in all of team_layouts, with the
 * form's number of layers; they print the layouts in which it is not. */
bool shardings_are_near(struct comm *comm, struct executor *executor, const struct form *form);
bool layouts_are_near(struct comm *comm, struct executor *executor, const struct form *form);

#endif
