#include "model/boundary.h"
#include "model/execution.h"

static struct tensor relayed(const struct execution *execution, const struct unit *unit, enum relay_direction relay)
{
    return tensor_rows(&execution->relays[relay], 0, execution_own_tokens(execution, unit));
}

static void outlet_forward(struct execution *execution, struct unit *unit, struct tensor input)
{
    LAUNCH(execution->stream, COPY, copy, .from = input, .to = relayed(execution, unit, RELAY_TO_NEXT));
}

static void outlet_backward(struct execution *execution, struct unit *unit, struct tensor input,
                            struct tensor output_gradient)
{
    (void)input, (void)output_gradient;
    LAUNCH(execution->stream, COPY, copy, .from = relayed(execution, unit, RELAY_FROM_NEXT),
           .to = unit_tensor(execution, unit, UNIT_INPUT_GRADIENT));
}

static void inlet_forward(struct execution *execution, struct unit *unit, struct tensor input)
{
    (void)input;
    LAUNCH(execution->stream, COPY, copy, .from = relayed(execution, unit, RELAY_FROM_BEFORE),
           .to = unit_tensor(execution, unit, UNIT_OUTPUT));
}

static void inlet_backward(struct execution *execution, struct unit *unit, struct tensor input,
                           struct tensor output_gradient)
{
    (void)input;
    if (execution->gradients & GRADIENT_INPUT)
        LAUNCH(execution->stream, COPY, copy, .from = output_gradient, .to = relayed(execution, unit, RELAY_TO_BEFORE));
}

static const struct unit_class outlet_class = {
    .name = "outlet", .forward = outlet_forward, .backward = outlet_backward, .reads_forward_only = true};
static const struct unit_class inlet_class = {
    .name = "inlet", .forward = inlet_forward, .backward = inlet_backward, .reads_forward_only = true};

void outlet_declare(struct unit *unit)
{
    unit->class = &outlet_class;
    unit_declare_tensor(unit, UNIT_INPUT_GRADIENT, "d sent", UNIT_OWN_TOKENS, unit->settings->hidden, ROLE_VALUE);
}

void inlet_declare(struct unit *unit)
{
    unit->class = &inlet_class;
    unit_declare_tensor(unit, UNIT_OUTPUT, "received", UNIT_OWN_TOKENS, unit->settings->hidden, ROLE_VALUE);
}
