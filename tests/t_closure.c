/* The recompute closure finds the smallest set of a unit's sections that restores the dropped tensors. */
#include "check.h"
#include "programs.h"

#include "plan/closure.h"
#include "plan/plan.h"

/* A unit: norm (writes H and RSTD), up (H -> UP), act (UP -> ACT), down (ACT -> Y). */
enum { ID_H, ID_RSTD, ID_UP, ID_ACT, ID_Y, IDS };
#define BIT(id) ((uint64_t)1 << (id))

/* By hand: what each section reads and writes, and what the unit's backward reads. */
static const struct {
    uint64_t reads, writes;
} section_use[IDS] = {
    [ID_H] = {0, BIT(ID_H) | BIT(ID_RSTD)},
    [ID_UP] = {BIT(ID_H), BIT(ID_UP)},
    [ID_ACT] = {BIT(ID_UP), BIT(ID_ACT)},
    [ID_Y] = {BIT(ID_ACT), BIT(ID_Y)},
};

/* Do the sections of `set`, run in order on what was not dropped, leave all that backward reads? */
static bool enough(uint64_t set, uint64_t dropped, uint64_t backward_reads)
{
    uint64_t present = ~dropped;
    for (int s = 0; s < IDS; s++) {
        if ((set & BIT(s)) == 0)
            continue;
        if (section_use[s].reads & ~present)
            return false;
        present |= section_use[s].writes;
    }
    return (backward_reads & ~present) == 0;
}

/* closure_find on sets of ids below 64. */
static uint64_t closure_bits(const struct closure_unit *unit, uint64_t dropped)
{
    const struct id_set set = {{dropped}};
    return closure_find(unit, &set).words[0];
}

static void test_closure(void)
{
    enum { T = 8, H = 16, F = 24 };
    struct executor *plan = plan_executor_create(NULL);
    struct stream s = {plan, STREAM_COMPUTE, NULL};
    struct tensor x = matrix(plan, T, H), gain = matrix(plan, 1, H), w_up = matrix(plan, 2 * F, H),
                  w_down = matrix(plan, H, F);
    struct tensor h = matrix(plan, T, H), rstd = matrix(plan, 1, T), up = matrix(plan, T, 2 * F),
                  act = matrix(plan, T, F), y = matrix(plan, T, H);
    struct tensor dy = matrix(plan, T, H), d_act = matrix(plan, T, F), d_up = matrix(plan, T, 2 * F),
                  d_h = matrix(plan, T, H), dx = matrix(plan, T, H), dw_up = matrix(plan, 2 * F, H),
                  dw_down = matrix(plan, H, F), d_gain = matrix(plan, 1, H);
    struct closure_tensor tensors[] = {
        {h.data, tensor_extent(&h), ID_H},    {rstd.data, tensor_extent(&rstd), ID_RSTD},
        {up.data, tensor_extent(&up), ID_UP}, {act.data, tensor_extent(&act), ID_ACT},
        {y.data, tensor_extent(&y), ID_Y},
    };
    const struct plan_log *log = plan_executor_log(plan);
    const int section[] = {ID_H, ID_UP, ID_ACT, ID_Y};
    LAUNCH(&s, RMSNORM_FORWARD, rmsnorm_forward, .x = x, .weight = gain, .y = h, .rstd = rstd, .eps = 1e-5f);
    LAUNCH(&s, GEMM, gemm, .a = h, .b = w_up, .d = up, .transpose_b = true);
    LAUNCH(&s, SWIGLU_FORWARD, swiglu_forward, .x = up, .y = act);
    LAUNCH(&s, GEMM, gemm, .a = act, .b = w_down, .c = x, .d = y, .transpose_b = true);
    int64_t forward_end = log->count;
    LAUNCH(&s, GEMM, gemm, .a = dy, .b = act, .d = dw_down, .transpose_a = true);
    int64_t weight_end = log->count;
    LAUNCH(&s, GEMM, gemm, .a = dy, .b = w_down, .d = d_act);
    LAUNCH(&s, SWIGLU_BACKWARD, swiglu_backward, .x = up, .dy = d_act, .dx = d_up);
    LAUNCH(&s, GEMM, gemm, .a = d_up, .b = h, .d = dw_up, .transpose_a = true);
    LAUNCH(&s, GEMM, gemm, .a = d_up, .b = w_up, .d = d_h);
    LAUNCH(&s, RMSNORM_BACKWARD, rmsnorm_backward, .x = x, .weight = gain, .rstd = rstd, .dy = d_h, .residual = dy,
           .dx = dx, .dweight = d_gain);

    struct closure_unit unit = {{log, 0, forward_end}, section, {log, forward_end, log->count}, tensors, IDS};
    CHECK(closure_bits(&unit, 0) == 0);
    CHECK(closure_bits(&unit, BIT(ID_Y)) == 0); /* backward does not read the unit's output */
    CHECK(closure_bits(&unit, BIT(ID_ACT)) == BIT(ID_ACT));
    CHECK(closure_bits(&unit, BIT(ID_H)) == BIT(ID_H));
    CHECK(closure_bits(&unit, BIT(ID_RSTD)) == (BIT(ID_RSTD) | BIT(ID_H))); /* the norm's section makes it */
    CHECK(closure_bits(&unit, BIT(ID_H) | BIT(ID_ACT)) == (BIT(ID_H) | BIT(ID_ACT)));
    /* a section whose id is that of a dropped tensor which it does not write: what makes copies of ACT, and no ACT */
    const int copies[] = {ID_H, ID_UP, IDS, ID_Y};
    struct closure_unit other = unit;
    other.section = copies;
    CHECK(closure_bits(&other, BIT(ID_ACT) | BIT(IDS)) == (BIT(ID_ACT) | BIT(IDS)));
    /* backward's weight gradient alone reads ACT: UP and H are wanted only because ACT is made from them */
    struct closure_unit weight = unit;
    weight.backward.end = weight_end;
    CHECK(closure_bits(&weight, BIT(ID_H)) == 0);
    CHECK(closure_bits(&weight, BIT(ID_UP)) == 0);
    CHECK(closure_bits(&weight, BIT(ID_ACT) | BIT(ID_H)) == BIT(ID_ACT));
    CHECK(closure_bits(&weight, BIT(ID_ACT) | BIT(ID_UP)) == (BIT(ID_ACT) | BIT(ID_UP)));
    CHECK(closure_bits(&weight, BIT(ID_ACT) | BIT(ID_UP) | BIT(ID_H)) == (BIT(ID_ACT) | BIT(ID_UP) | BIT(ID_H)));

    /* a backward that makes ACT before it reads it */
    const int64_t remade = log->count;
    LAUNCH(&s, SWIGLU_FORWARD, swiglu_forward, .x = up, .y = act);
    LAUNCH(&s, GEMM, gemm, .a = dy, .b = act, .d = dw_down, .transpose_a = true);
    struct closure_unit remakes = unit;
    remakes.backward = (struct plan_span){log, remade, log->count};
    CHECK(closure_bits(&remakes, BIT(ID_ACT)) == 0);
    CHECK(closure_bits(&remakes, BIT(ID_ACT) | BIT(ID_UP)) == BIT(ID_UP));

    /* every drop set, against the smallest of all sets of sections that are enough */
    const uint64_t sections = BIT(ID_H) | BIT(ID_UP) | BIT(ID_ACT) | BIT(ID_Y);
    for (uint64_t dropped = 0; dropped < BIT(IDS); dropped++) {
        uint64_t all_reads = BIT(ID_ACT) | BIT(ID_UP) | BIT(ID_H) | BIT(ID_RSTD);
        for (int half = 0; half < 2; half++) {
            uint64_t reads = half ? BIT(ID_ACT) : all_reads, smallest = sections;
            for (uint64_t set = 0; set < BIT(IDS); set++)
                if ((set & ~sections) == 0 && enough(set, dropped, reads) &&
                    __builtin_popcountll(set) < __builtin_popcountll(smallest))
                    smallest = set;
            CHECK((closure_bits(half ? &weight : &unit, dropped) & sections) == smallest);
        }
    }
    plan->class->destroy(plan);
}

int main(void)
{
    test_closure();
    return check_end();
}
