/* A mixture of experts in place of a block's MLP:
 *
 *   y = addend + sum over the chosen experts e of w_e W_down,e swiglu(W_up,e x)
 *
 * The router chooses experts_per_token of settings->experts experts for each token; w are the weights of the choice.
 * All tokens are computed (dropless): experts_per_token rows a token on every rank, whatever the router chooses, so
 * memory is planned exactly. Where an expert's rows begin is known to the device alone: no launch waits for the host.
 *
 * The auxiliary loss that balances the load covers the tokens with labels, each row of the micro-batch and each layer
 * separately; its weight is settings->router_aux_loss_coef, of the mean over layers. Its gradient is added in training;
 * the reported loss does not contain it. */
#ifndef MODEL_EXPERTS_H
#define MODEL_EXPERTS_H

#include "core/id_set.h"
#include "model/unit.h"

/* Ids that experts add to their unit's tensors, from the first of struct expert_ids on. */
enum expert_tensor {
    EXPERTS_LOGITS, /* the router's output */
    EXPERTS_CHOSEN,
    EXPERTS_WEIGHTS, /* of the choice */
    EXPERTS_PLACES,
    EXPERTS_TOKENS,
    EXPERTS_ENDS,
    EXPERTS_DISPATCHED, /* the tokens' rows in the order of their experts */
    EXPERTS_UP,
    EXPERTS_ACTIVATED,
    EXPERTS_OUTPUTS,
    EXPERTS_D_OUTPUTS, /* this one and those after it exist only during backward */
    EXPERTS_D_WEIGHTS,
    EXPERTS_D_ACTIVATED,
    EXPERTS_D_UP,
    EXPERTS_D_DISPATCHED,
    EXPERTS_LOAD,
    EXPERTS_D_LOGITS,
    EXPERTS_TENSORS
};

/* Ids of the unit's weights, and the first of EXPERTS_TENSORS ids of tensors. Weight up has an expert's gate, then its
 * up, then those of the next expert; down has one expert's rows after the other's. */
struct expert_ids {
    int router, up, down;
    int first;
};

/* Returns whether the unit's model has experts. */
bool experts_present(const struct unit *unit);

/* Declares weights, parameters and tensors. layer: prefix of the parameters' names. */
void experts_declare_weights(struct unit *unit, const struct expert_ids *ids, const char *layer);
void experts_declare_tensors(struct unit *unit, const struct expert_ids *ids);

/* Adds the tensors that a recompute policy drops. */
void experts_drop(struct id_set *set, const struct expert_ids *ids, enum deck_recompute policy);

/* x: the input [tokens, hidden]; output: y of the formula. */
void experts_forward(struct execution *execution, const struct unit *unit, const struct expert_ids *ids,
                     struct tensor x, struct tensor addend, struct tensor output);
/* Computes the gradients that execution->gradients requests, from dy, the gradient of y; dx: x's. With context
 * parallelism collective over the ranks that share rows. */
void experts_backward(struct execution *execution, const struct unit *unit, const struct expert_ids *ids,
                      struct tensor x, struct tensor dy, struct tensor dx);

#endif
