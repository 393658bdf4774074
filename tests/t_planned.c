/* The estimate of each rank matches the run: every byte of each memory category, and the measured traffic of each
 * group, in layouts of shared state, rows, layers and stages. parallel.shard = "auto" chooses the cheapest layout that
 * fits. Injected faults: rates without nodes or arithmetic, missing micro-batches, every rank taken for the first,
 * groups of before the choice, unasked ranks.
 *
 * ranks: 4 */
#include "check.h"

#include "deck/fields.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "infer/inference.h"
#include "estimate/fit.h"
#include "estimate/estimate.h"
#include "setup/layout.h"
#include "estimate/layout_choice.h"
#include "train/session.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static struct comm *world;

static const char *const deck_text =
    "model = { layers = 6; hidden = 64; ffn = 160; heads = 4; kv_heads = 2; vocabulary = 100; };\n"
    "data = { source = \"random\"; random_median = 40; random_mean = 60; row_tokens = 128; };\n"
    "train = { global_batch = 18; micro_batch = 1; };\n" /* five micro-batches of four rows, the last half empty */
    "device = { threads = 1; tuning_file = \"none\"; };\n";

/* An executor on which ranks that measure gradients need more than others. */
static struct executor_class measuring;
static const struct executor_class *plain;

static int64_t workspace(struct executor *executor, enum op op, const void *args)
{
    return plain->workspace(executor, op, args) + (op == OP_SUM_SQUARES ? 1 << 20 : 0);
}

static int make_executor(struct executor **executor, const struct device_request *request)
{
    int code = cpu_executor_make(executor, request);
    if (code != ERROR_NONE)
        return code;
    plain = (*executor)->class;
    measuring = *plain;
    measuring.workspace = workspace;
    (*executor)->class = &measuring;
    return ERROR_NONE;
}

/* -- Counting ----------------------------------------------------------------------------------------------------- */

static struct counted {
    struct group *group;
    const struct group_class *plain;
    struct group_class class;
    struct plan_traffic traffic;
} counted[ESTIMATE_GROUPS];
static int counted_count;

static struct counted *count(struct group *group, const struct tensor *whole, int64_t part, int64_t parts)
{
    struct counted *c = counted;
    while (c->group != group)
        c++;
    c->traffic.collectives++;
    c->traffic.bytes += tensor_count(whole) * dtype_size(whole->dtype) * part / parts;
    return c;
}

static void all_reduce(struct group *group, struct stream *stream, const struct all_reduce_args *a)
{
    count(group, &a->x, 2 * (group->size - 1), group->size)->plain->all_reduce(group, stream, a);
}

static void reduce_scatter(struct group *group, struct stream *stream, const struct reduce_scatter_args *a)
{
    count(group, &a->in, group->size - 1, group->size)->plain->reduce_scatter(group, stream, a);
}

static void all_gather(struct group *group, struct stream *stream, const struct all_gather_args *a)
{
    count(group, &a->out, group->size - 1, group->size)->plain->all_gather(group, stream, a);
}

static void broadcast(struct group *group, struct stream *stream, const struct broadcast_args *a)
{
    count(group, &a->x, 1, 1)->plain->broadcast(group, stream, a);
}

static void all_to_all(struct group *group, struct stream *stream, const struct all_to_all_args *a)
{
    count(group, &a->out, group->size - 1, group->size)->plain->all_to_all(group, stream, a);
}

static void shift(struct group *group, struct stream *stream, const struct shift_args *a)
{
    count(group, &a->out, 1, 1)->plain->shift(group, stream, a);
}

static void send_receive(struct group *group, struct stream *stream, const struct send_receive_args *a)
{
    const bool both = tensor_present(&a->from_previous) && tensor_present(&a->from_next);
    const struct tensor *from = tensor_present(&a->from_previous) ? &a->from_previous : &a->from_next;
    count(group, from, both ? 2 : tensor_present(from), 1)->plain->send_receive(group, stream, a);
}

static void start_counting(struct group *group)
{
    for (int i = 0; i < counted_count; i++)
        if (counted[i].group == group)
            return;
    if (group == NULL)
        return;
    struct counted *c = &counted[counted_count++];
    *c = (struct counted){
        .group = group, .plain = group->class, .class = *group->class, .traffic = {.group = group->name}};
    c->class.all_reduce = all_reduce;
    c->class.reduce_scatter = reduce_scatter;
    c->class.all_gather = all_gather;
    c->class.broadcast = broadcast;
    c->class.all_to_all = all_to_all;
    c->class.shift = shift;
    c->class.send_receive = send_receive;
    group->class = &c->class;
}

static void count_step(struct session *s)
{
    const struct parallel_groups *g = &s->groups;
    struct group *const groups[] = {g->all,     g->data,   g->gather, g->reduce,      g->replicas,
                                    g->context, g->tensor, g->shared, g->kv_replicas, g->stages};
    counted_count = 0;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        start_counting(groups[i]);
    engine_step(&s->engine, &s->schedule, loader_next(s->train), 1e-3);
    for (int i = 0; i < counted_count; i++)
        counted[i].group->class = counted[i].plain;
}

/* -- Comparing ---------------------------------------------------------------------------------------------------- */

/* This rank's kind: first or not in each of its groups, and its stage. */
static const struct estimate_rank *own_kind(const struct estimate *f, const struct deck *deck)
{
    const struct grid_shape shape = layout_shape(deck);
    const struct grid_numbers own = grid_place(&shape, world->size, world->rank);
    for (int k = 0; k < f->kind_count; k++) {
        const struct grid_numbers kind = grid_place(&shape, world->size, f->kinds[k].rank);
        if ((own.shard > 0) == (kind.shard > 0) && (own.replicas > 0) == (kind.replicas > 0) &&
            (own.context > 0) == (kind.context > 0) && (own.tensor > 0) == (kind.tensor > 0) &&
            (own.kv_replicas > 0) == (kind.kv_replicas > 0) && own.stages == kind.stages)
            return &f->kinds[k];
    }
    error_fatal("rank %d is of no kind", world->rank);
}

static void compare_memory(const struct estimate_rank *kind, const struct session *s)
{
    for (int c = 0; c < BUDGET_CATEGORIES; c++)
        if (!CHECK(kind->memory[c] == s->engine.budget.bytes[c]))
            fprintf(stderr, "    rank %d, %s: planned %lld bytes, has %lld\n", world->rank,
                    budget_category_name((enum budget_category)c), (long long)kind->memory[c],
                    (long long)s->engine.budget.bytes[c]);
    CHECK(kind->need == budget_total(&s->engine.budget) + s->engine.budget.bytes[BUDGET_HOST]); /* of a CPU */
    CHECK(kind->quantized == s->engine.store->quantized && kind->quantized < kind->memory[BUDGET_WEIGHTS]);
}

static void compare_traffic(const struct estimate_rank *kind)
{
    int moved = 0;
    for (int i = 0; i < counted_count; i++) {
        const struct plan_traffic *real = &counted[i].traffic, *planned = NULL;
        for (int g = 0; g < kind->groups; g++)
            if (strcmp(kind->traffic[g].group, real->group) == 0)
                planned = &kind->traffic[g];
        moved += real->collectives > 0;
        if (!CHECK(planned == NULL ? real->collectives == 0
                                   : planned->collectives == real->collectives && planned->bytes == real->bytes))
            fprintf(stderr, "    rank %d, group %s: %lld collectives of %lld bytes, planned %lld of %lld\n",
                    world->rank, real->group, (long long)real->collectives, (long long)real->bytes,
                    planned != NULL ? (long long)planned->collectives : 0,
                    planned != NULL ? (long long)planned->bytes : 0);
    }
    CHECK(moved == kind->groups); /* nothing else is planned */
}

/* settings: overrides, with spaces between. */
static bool read_deck(struct deck *deck, const char *settings)
{
    char *overrides[16];
    char text[512];
    int count = 0;
    snprintf(text, sizeof text, "%s", settings);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        overrides[count++] = word;
    return CHECK(deck_read_text(deck, deck_text, "deck", overrides, count) == ERROR_NONE);
}

static void choose(struct layout_choice *choice, struct deck *deck, int64_t node, int64_t limit,
                   struct executor *target)
{
    struct machine_rates rates;
    rates_default(&rates, deck->device.peak * 1e12);
    rates.node = node;
    const struct layout_place place = {world->size, limit, 0, target, &rates};
    CHECK(layout_choose(choice, deck, deck->model.vocabulary, &place) == ERROR_NONE);
}

static void compare(const char *settings)
{
    struct deck deck;
    struct session s;
    struct estimate f;
    const int failures = check_failures;
    if (read_deck(&deck, settings) && CHECK(session_create(&s, &deck, world, NULL, make_executor) == ERROR_NONE)) {
        if (deck.parallel.shard == DECK_SHARD_AUTO || deck.parallel.context == 0) {
            struct layout_choice choice;
            choose(&choice, &deck, world->size, (int64_t)(deck.device.memory * (1 << 30)), s.executor);
            layout_choice_destroy(&choice);
        }
        CHECK(memcmp(&deck.parallel, &s.setup.deck->parallel, sizeof deck.parallel) == 0);
        CHECK(estimate_create(&f, &deck, world->size, s.threads, s.executor, NULL) == ERROR_NONE);
        CHECK(f.setup.micro_batches == loader_micro_batches(s.train));
        const struct estimate_rank *kind = own_kind(&f, &deck);
        CHECK(s.model.units[0].complete_gradients || deck.model.vocabulary < 2000);
        count_step(&s);
        compare_memory(kind, &s);
        compare_traffic(kind);
        estimate_destroy(&f);
        session_destroy(&s);
    }
    if (check_failures > failures)
        fprintf(stderr, "    with %s: %s\n", settings, error_message());
}

/* -- What is left open -------------------------------------------------------------------------------------------- */

/* What a step takes is told by the same estimate, on nodes of two; its transfers take longer than on one of all. */
static void test_seconds(struct executor *cpu)
{
    struct deck deck;
    struct layout_choice choice;
    struct machine_rates pairs, together;
    int hybrid = 0;
    read_deck(&deck, "parallel.shard=auto");
    deck.device.memory = 1;
    rates_default(&pairs, deck.device.peak * 1e12);
    pairs.node = 2;
    together = pairs;
    together.node = world->size;
    struct deck other = deck;
    choose(&choice, &other, 2, INT64_MAX, cpu);
    CHECK(choice.count == 7); /* none, and three levels in one group and in two */
    for (int i = 0; i < choice.count; i++) {
        const struct layout_candidate *c = &choice.candidates[i];
        struct estimate f, near;
        deck.parallel.shard = c->shard;
        deck.parallel.shard_size = c->shard_size;
        CHECK(estimate_create(&f, &deck, world->size, 1, cpu, &pairs) == ERROR_NONE);
        CHECK(estimate_create(&near, &deck, world->size, 1, cpu, &together) == ERROR_NONE);
        CHECK_NEAR(c->seconds, estimate_neediest(&f)->seconds, 1e-7, 0);
        CHECK(estimate_neediest(&near)->exposed < estimate_neediest(&f)->exposed);
        CHECK_NEAR(estimate_neediest(&near)->seconds - estimate_neediest(&near)->exposed,
                   estimate_neediest(&f)->seconds - estimate_neediest(&f)->exposed, 1e-9, 0);
        estimate_destroy(&near);
        CHECK(c->need == estimate_neediest(&f)->need && (i == 0 || c->seconds >= choice.candidates[i - 1].seconds));
        hybrid += c->shard_size == 2;
        estimate_destroy(&f);
    }
    CHECK(hybrid == 3);
    layout_choice_destroy(&choice);
}

/* With just as much as a layout needs: the cheapest of those that need no more; the run takes the same, and is as
 * planned. */
static void test_limits(struct executor *cpu, const char *settings)
{
    struct deck deck;
    struct layout_choice all;
    char text[256];
    read_deck(&deck, settings);
    deck.device.memory = 1; /* the limit is to be kept to the byte */
    struct deck least = deck;
    choose(&all, &least, world->size, 0, cpu); /* where none fits, by need */
    for (int i = 0; i < all.count; i++) {
        const struct layout_candidate *c = &all.candidates[i], *best = c;
        struct layout_choice again;
        struct deck other = deck;
        CHECK(!c->fits && c->moved > 0 && (i == 0 || c->need >= c[-1].need));
        for (int k = 0; k < all.count && all.candidates[k].need <= c->need; k++)
            if (all.candidates[k].seconds < best->seconds)
                best = &all.candidates[k];
        choose(&again, &other, world->size, c->need, cpu);
        CHECK(again.candidates[0].fits && again.candidates[0].need <= c->need);
        CHECK(again.candidates[0].seconds == best->seconds);
        CHECK(other.parallel.shard == again.candidates[0].shard &&
              other.parallel.shard_size == again.candidates[0].shard_size);
        layout_choice_destroy(&again);
        snprintf(text, sizeof text, "%s device.memory=%.17g", settings, (double)c->need / (1 << 30));
        compare(text);
    }
    CHECK(least.parallel.shard == all.candidates[0].shard && least.parallel.shard == DECK_SHARD_FULL);
    layout_choice_destroy(&all);
}

/* Rows are cut only where nothing else fits, and no more than it takes. */
static void test_context(struct executor *cpu)
{
    struct deck deck;
    struct layout_choice choice;
    char settings[128];
    int64_t need[3];
    read_deck(&deck, "parallel.context=0");
    deck.device.memory = 1;
    struct deck other = deck;
    choose(&choice, &other, world->size, 0, cpu); /* by need: of 1, 2 and 4 ranks to a row */
    CHECK(choice.count == 3 && other.parallel.context == 4 && other.parallel.shard == DECK_SHARD_NONE);
    for (int i = 0; i < 3; i++) {
        CHECK(choice.candidates[i].context == 4 >> i);
        need[i] = choice.candidates[i].need;
    }
    layout_choice_destroy(&choice);
    for (int i = 0; i < 3; i++) {
        other = deck;
        choose(&choice, &other, world->size, need[i], cpu);
        CHECK(other.parallel.context == 4 >> i && choice.candidates[0].fits);
        CHECK(choice.count == 3 - i); /* no more are looked at */
        layout_choice_destroy(&choice);
        snprintf(settings, sizeof settings, "parallel.context=0 device.memory=%.17g", (double)need[i] / (1 << 30));
        compare(settings);
    }
    read_deck(&deck, "parallel.context=0 data.row_tokens=192 parallel.shard=auto"); /* cannot be cut in 8 */
    choose(&choice, &deck, world->size, 0, cpu);
    for (int i = 0; i < choice.count; i++)
        CHECK(choice.candidates[i].context <= 2);
    CHECK(choice.count == 2 * 7);
    layout_choice_destroy(&choice);
}

/* What layers make again is judged with the layout: with as much memory as one takes with little made again, another
 * that moves less but must make more again is not taken. */
static void test_recompute(struct executor *cpu)
{
    struct deck deck;
    struct estimate f;
    struct layout_choice choice;
    read_deck(&deck, "parallel.shard=optimizer memory.recompute=qkv data.row_tokens=1024");
    deck.device.memory = 1;
    CHECK(estimate_create(&f, &deck, world->size, 1, cpu, NULL) == ERROR_NONE);
    const int64_t limit = estimate_neediest(&f)->need;
    estimate_destroy(&f);
    deck.parallel.shard = DECK_SHARD_AUTO;
    deck.memory.recompute = DECK_RECOMPUTE_FIT;
    choose(&choice, &deck, world->size, limit, cpu);
    const struct layout_candidate *chosen = choice.candidates;
    CHECK(chosen->fits && chosen->shard == DECK_SHARD_OPTIMIZER && chosen->shard_size == 0);
    for (int i = 0; i < choice.count; i++) {
        const struct layout_candidate *c = &choice.candidates[i];
        CHECK(c->shard != DECK_SHARD_NONE || (c->fits && c->moved <= chosen->moved && c->seconds > chosen->seconds));
    }
    layout_choice_destroy(&choice);
}

static void test_choices(void)
{
    const struct device_request request = {.kind = DECK_DEVICE_CPU, .threads = 1, .world = world};
    struct deck deck;
    struct layout_choice choice;
    struct executor *cpu;
    CHECK(make_executor(&cpu, &request) == ERROR_NONE);
    test_seconds(cpu);
    test_limits(cpu, "parallel.shard=auto");
    test_context(cpu);
    test_recompute(cpu);
    read_deck(&deck, "parallel.shard=auto precision.compute=bf16"); /* values travel in half the bytes */
    choose(&choice, &deck, world->size, INT64_MAX, cpu);
    CHECK(deck.parallel.shard == DECK_SHARD_OPTIMIZER && deck.parallel.shard_size == 0);
    layout_choice_destroy(&choice);
    cpu->class->destroy(cpu);
}

/* -- Inference ---------------------------------------------------------------------------------------------------- */

static int64_t free_memory;

static int64_t available(struct executor *executor)
{
    (void)executor;
    return free_memory;
}

static int64_t no_margin(struct executor *executor)
{
    (void)executor;
    return 0;
}

static int make_small_executor(struct executor **executor, const struct device_request *request)
{
    static const struct executor_device device = {.available = available, .margin = no_margin};
    int code = make_executor(executor, request);
    (*executor)->device = &device;
    return code;
}

/* What ranks hold of the weights of a checkpoint, where rank 2 has as much free memory as `free_memory_of_2`, and the
 * others plenty; returns what this rank would take. */
static int64_t lay_out(int64_t free_memory_of_2, bool asked, bool shares)
{
    struct inference *inference = memory_allocate(sizeof *inference);
    const char *top = getenv("abs_top_srcdir");
    char *path = memory_format("%s/tests/golden/eval_llama.h5", top != NULL ? top : ".");
    int64_t need = 0;
    free_memory = world->rank == 2 ? free_memory_of_2 : INT64_MAX;
    if (CHECK(inference_open(inference, world, path, make_small_executor) == ERROR_NONE)) {
        inference_lay_out(
            inference, &(struct inference_shape){.use = MEMORY_EVALUATE, .tokens = 64, .segments = 4, .shard = asked});
        CHECK(inference->shares == shares);
        need = inference_need(inference);
        CHECK(inference_start(inference) == ERROR_NONE && budget_total(&inference->engine.budget) == need);
    }
    inference_close(inference);
    free(path);
    memory_free(inference);
    return need;
}

/* Ranks share the weights where one of them lacks the memory for all, or where that is asked for. (This model's buffers
 * are larger than what each saves.) */
static void test_inference(void)
{
    const int64_t whole = lay_out(INT64_MAX, false, false);
    CHECK(lay_out(whole, false, false) == whole);
    CHECK(lay_out(whole - 1, false, true) != whole);
    CHECK(lay_out(INT64_MAX, true, true) != whole);
}

int main(int argc, char **argv)
{
    static const char *const precisions[] = {
        "",
        "precision.compute=bf16",
        "precision.compute=bf16 precision.recipe=delayed memory.recompute=full",
        "precision.compute=bf16 precision.masters=false",
        "precision.compute=bf16 precision.gradients=bf16",
    };
    static const char *const layouts[] = {
        "parallel.shard=none",
        "parallel.shard=optimizer",
        "parallel.shard=gradients",
        "parallel.shard=full",
        "parallel.shard=full parallel.shard_size=2",
        "parallel.shard=optimizer parallel.shard_size=2 parallel.reduce_as=bf16",
        "parallel.shard=full parallel.reduce=step model.tied=yes",
        "parallel.context=2 parallel.context_method=gather",
        "parallel.context=2 parallel.context_method=heads parallel.shard=full parallel.shard_size=2",
        "parallel.context=4 parallel.context_method=ring parallel.shard=gradients",
        "parallel.shard=none model.vocabulary=2000",
        "parallel.shard=full parallel.shard_size=2 model.vocabulary=2000",
    };
    static const char *const others[] = {
        "parallel.pipeline=2 parallel.shard=optimizer model.tied=yes",
        "parallel.pipeline=2 parallel.virtual_stages=2 parallel.shard=full precision.compute=bf16 "
        "precision.masters=false "
        "memory.offload_layers=1,3 memory.recompute=norms train.global_batch=24",
        "parallel.pipeline=2 parallel.virtual_stages=3 train.global_batch=24 model.vocabulary=2000",
        "parallel.pipeline=4 precision.compute=bf16 precision.recipe=delayed memory.recompute=full",
        "parallel.pipeline=2 parallel.context=2 parallel.context_method=ring train.global_batch=3",
        "parallel.pipeline=2 parallel.tensor=2 parallel.virtual_stages=2 model.tied=yes",
        "parallel.tensor=2 parallel.shard=full model.vocabulary=2001",
        "parallel.tensor=2 parallel.sequence=false model.tied=yes model.vocabulary=259",
        "parallel.tensor=4 parallel.sequence=false model.vocabulary=301",
        "parallel.tensor=4 parallel.sequence=false model.tied=yes",
    };
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    log_open(world->rank);
    CHECK(world->size == 4);
    for (size_t p = 0; p < sizeof precisions / sizeof precisions[0]; p++)
        for (size_t l = p % 2; l < sizeof layouts / sizeof layouts[0]; l += 1 + (p > 0)) {
            char settings[512];
            snprintf(settings, sizeof settings, "%s %s", precisions[p], layouts[l]);
            compare(settings);
        }
    for (size_t p = 0; p < sizeof others / sizeof others[0]; p++)
        compare(others[p]);
    test_choices();
    test_inference();
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
