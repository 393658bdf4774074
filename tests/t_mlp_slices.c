/* A block that computes its MLP in slices of tokens has the losses, gradients and state of one that computes it at
 * once: for toys of every family, in fp32 and bf16, under each recompute policy, with packed rows, offloaded
 * activations, split backwards and replays, for slices that divide the tokens and slices that do not. Injected fault:
 * gradients of later slices that are not added. */
#include "check.h"

#include "cpu/cpu.h"
#include "ref/team.h"
#include "ref/wrapper.h"

static struct comm *self;
static struct executor *cpu;

/* A training, and the team that ran it. */
struct trained {
    struct team team;
    struct run_outcome outcome;
};

static void train(struct trained *t, struct executor *executor, const struct form *form)
{
    const struct layout layout = {.context = 1, .shard = 1};
    team_create(&t->team, self, executor, &layout, form);
    t->outcome = team_train(&t->team);
    CHECK(t->outcome.agree);
}

static void trained_destroy(struct trained *t)
{
    outcome_destroy(&t->outcome);
    team_destroy(&t->team);
}

static struct distances between(struct trained *a, struct trained *b)
{
    const struct distances apart = outcome_apart(&a->outcome, &b->outcome, &a->team.whole);
    trained_destroy(a);
    trained_destroy(b);
    return apart;
}

/* Does not add: each weight gradient overwrites the one before it. */
static void overwrite(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op != OP_GEMM || !((const struct gemm_args *)args)->transpose_a) {
        wrapper_pass(wrapper, stream, op, args);
        return;
    }
    struct gemm_args changed = *(const struct gemm_args *)args;
    changed.accumulate = false;
    wrapper_pass(wrapper, stream, op, &changed);
}

/* Returns the distance of a training in slices of `tokens` from one without. */
static struct distances sliced_apart(struct executor *executor, struct form form, int64_t tokens)
{
    struct trained all, sliced;
    train(&all, cpu, &form);
    form.mlp_tokens = tokens;
    train(&sliced, executor, &form);
    return between(&all, &sliced);
}

static bool within(const struct distances *found, const struct distances *bound)
{
    return found->loss <= bound->loss && found->norm <= bound->norm && found->first <= bound->first &&
           found->last <= bound->last;
}

static void test_form(const struct form *form, int64_t tokens)
{
    struct form exact = *form;
    struct distances bound = bound_f32;
    if (form->compute == DTYPE_BF16) {
        exact.compute = DTYPE_F32;
        struct trained a, b;
        train(&a, cpu, &exact);
        train(&b, cpu, form);
        const struct distances one = between(&a, &b);
        bound = bound_of_rounding(&one);
    }
    const struct distances found = sliced_apart(cpu, *form, tokens);
    const struct layout layout = {.context = 1, .shard = 1};
    if (!CHECK(within(&found, &bound)))
        fprintf(stderr, "%s, slices of %d:\n    loss %.2e, norm %.2e, gradients %.2e and %.2e\n",
                team_text(1, &layout, form), (int)tokens, found.loss, found.norm, found.first, found.last);
}

int main(void)
{
    static const enum toy_kind kinds[] = {TOY_LLAMA, TOY_ESM2, TOY_AMPLIFY, TOY_OLMO2};
    static const enum deck_recompute policies[] = {DECK_RECOMPUTE_NONE, DECK_RECOMPUTE_NORMS, DECK_RECOMPUTE_GATE_UP,
                                                   DECK_RECOMPUTE_FULL};
    self = comm_self();
    cpu = cpu_executor_create(1);
    for (int k = 0; k < LENGTH(kinds); k++)
        for (int p = 0; p < LENGTH(policies); p++) {
            struct form form = {.kind = kinds[k],
                                .packed = p % 2 == 0,
                                .micro_batches = 1 + p % 2,
                                .compute = DTYPE_F32,
                                .recompute = policies[p],
                                .slots = 1,
                                .poisoned = true,
                                .offloaded = p == 1};
            test_form(&form, 48);
            test_form(&form, 100);
            form.split_backward = true;
            form.slots = 2;
            form.offloaded = false;
            test_form(&form, 100);
            form.compute = DTYPE_BF16;
            test_form(&form, 112);
        }
    struct wrapper wrapper;
    wrapper_create(&wrapper, cpu, overwrite, NULL);
    const struct distances found = sliced_apart(
        &wrapper.executor, (struct form){.kind = TOY_LLAMA, .micro_batches = 1, .compute = DTYPE_F32, .slots = 1}, 100);
    CHECK(!within(&found, &bound_f32));
    cpu->class->destroy(cpu);
    comm_destroy(self);
    return check_end();
}
