/* Where a model is cut into slices for the stages of a pipeline: an outlet ends a slice, an inlet begins the next. They
 * have no weights. What they hand over and take is in execution->relays, which travels between actions
 * (engine/schedule.h); an inlet's output is a tensor like any other, so the planner keeps it where the next unit's
 * backward reads it. */
#ifndef MODEL_BOUNDARY_H
#define MODEL_BOUNDARY_H

#include "model/unit.h"

/* Both fill a zeroed unit. */
void outlet_declare(struct unit *unit);
void inlet_declare(struct unit *unit);

#endif
