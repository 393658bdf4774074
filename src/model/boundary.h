/* Stage boundaries of a pipeline: a stage_send unit ends a slice of the model, a stage_receive unit begins the next.
 * They have no weights. They copy between their tensors and execution->stage_buffers, which the engine sends and
 * receives between actions (engine/schedule.h). The output of stage_receive is a tensor like any other, so the planner
 * keeps it if the next unit's backward reads it. */
#ifndef MODEL_BOUNDARY_H
#define MODEL_BOUNDARY_H

#include "model/unit.h"

/* Both fill a zeroed unit. */
void stage_send_declare(struct unit *unit);
void stage_receive_declare(struct unit *unit);

#endif
