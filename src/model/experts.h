/* A mixture of experts in place of a block's MLP:
 *
 *   y = addend + sum over the chosen experts e of w_e W_down,e swiglu(W_up,e x)
 *
 * The router chooses experts_per_token of settings->experts experts for each token; w are the weights of the choice.
 * All tokens are computed (dropless): at most experts_per_token rows a token on every rank, whatever the router
 * chooses, so memory is planned exactly. Where an expert's rows begin is known to the device alone: no launch waits for
 * the host.
 *
 * Expert parallelism: each tensor rank stores an equal number of consecutive whole experts, and computes the pairs of
 * all ranks' tokens with these experts. The tokens are gathered before the router, and the ranks' parts of y are
 * summed: the transfers of an MLP under tensor parallelism (model/sequence.h). Every rank routes all tokens, by the
 * same launches on the same numbers, so all ranks choose the same experts. A rank knows the gradients of its own
 * experts' weights of the choice, and the router's gradients are linear in these: each rank computes a term of them,
 * which the store sums.
 *
 * The auxiliary loss that balances the load covers the tokens with labels, each row of the micro-batch and each layer
 * separately; its weight is settings->router_aux_loss_coef, of the mean over layers. Its gradient is added in training,
 * by the first tensor rank; the reported loss does not contain it. */
#ifndef MODEL_EXPERTS_H
#define MODEL_EXPERTS_H

#include "core/id_set.h"
#include "model/unit.h"

/* Ids that experts add to their unit's tensors, from the first of struct expert_ids on. */
enum expert_tensor {
    EXPERTS_GATHERED, /* sequence parallelism: the input of all tensor ranks */
    EXPERTS_LOGITS,   /* the router's output */
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
    /* sequence parallelism: the output's gradient of all tensor ranks, this rank's term of a sum over them, and scratch
     * for this sum */
    EXPERTS_D_GATHERED,
    EXPERTS_PARTIAL,
    EXPERTS_SCRATCH,
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

/* x: the input [tokens, hidden]; output: y of the formula. With sequence parallelism x, addend and output have this
 * rank's tokens only. Collective over the tensor ranks. */
void experts_forward(struct execution *execution, const struct unit *unit, const struct expert_ids *ids,
                     struct tensor x, struct tensor addend, struct tensor output);
/* Computes the gradients that execution->gradients requests, from dy, the gradient of y; dx: x's. Collective over the
 * tensor ranks; of their first ones, over those that share rows. */
void experts_backward(struct execution *execution, const struct unit *unit, const struct expert_ids *ids,
                      struct tensor x, struct tensor dy, struct tensor dx);

#endif
