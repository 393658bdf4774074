#include "model/boundary.h"
#include "model/execution.h"

static struct tensor stage_buffer(const struct execution *execution, const struct unit *unit,
                                  enum transfer_direction direction)
{
    return tensor_rows(&execution->stage_buffers[direction], 0, execution_own_tokens(execution, unit));
}

static void stage_send_forward(struct execution *execution, struct unit *unit, struct tensor input)
{
    LAUNCH(execution->stream, COPY, copy, .from = input, .to = stage_buffer(execution, unit, SEND_TO_NEXT));
}

static void stage_send_backward(struct execution *execution, struct unit *unit, struct tensor input,
                                struct tensor output_gradient)
{
    (void)input, (void)output_gradient;
    LAUNCH(execution->stream, COPY, copy, .from = stage_buffer(execution, unit, RECEIVE_FROM_NEXT),
           .to = unit_tensor(execution, unit, UNIT_INPUT_GRADIENT));
}

static void stage_receive_forward(struct execution *execution, struct unit *unit, struct tensor input)
{
    (void)input;
    LAUNCH(execution->stream, COPY, copy, .from = stage_buffer(execution, unit, RECEIVE_FROM_PREVIOUS),
           .to = unit_tensor(execution, unit, UNIT_OUTPUT));
}

static void stage_receive_backward(struct execution *execution, struct unit *unit, struct tensor input,
                                   struct tensor output_gradient)
{
    (void)input;
    if (execution->gradients & GRADIENT_INPUT)
        LAUNCH(execution->stream, COPY, copy, .from = output_gradient,
               .to = stage_buffer(execution, unit, SEND_TO_PREVIOUS));
}

static const struct unit_class stage_send_class = {
    .name = "stage_send", .forward = stage_send_forward, .backward = stage_send_backward, .reads_forward_only = true};
static const struct unit_class stage_receive_class = {.name = "stage_receive",
                                                      .forward = stage_receive_forward,
                                                      .backward = stage_receive_backward,
                                                      .reads_forward_only = true};

void stage_send_declare(struct unit *unit)
{
    unit->class = &stage_send_class;
    unit_declare_tensor(unit, UNIT_INPUT_GRADIENT, "d sent", UNIT_OWN_TOKENS, unit->settings->hidden, ROLE_VALUE);
}

void stage_receive_declare(struct unit *unit)
{
    unit->class = &stage_receive_class;
    unit_declare_tensor(unit, UNIT_OUTPUT, "received", UNIT_OWN_TOKENS, unit->settings->hidden, ROLE_VALUE);
}
