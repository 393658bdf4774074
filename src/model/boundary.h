/* Stage boundaries of a pipeline: an outlet ends a slice of the model and sends, an inlet begins the next and receives.
 * They have no weights. They copy between their tensors and execution->relays, which the engine sends and receives
 * between actions (engine/schedule.h). An inlet's output is a tensor like any other, so the planner keeps it if the
 * next unit's backward reads it. */
#ifndef MODEL_BOUNDARY_H
#define MODEL_BOUNDARY_H

#include "model/unit.h"

/* Both fill a zeroed unit. */
void outlet_declare(struct unit *unit);
void inlet_declare(struct unit *unit);

#endif
