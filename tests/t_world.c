/* Thousands of ranks, without the machine: this process acts as rank 0, a middle one and the last one of worlds of 64,
 * 1,024 and 16,384 ranks (comm/counting.h). A start, a loader's start, a save and a restart there make the same number
 * of collectives and communicators at any size; their messages, bytes, memory and time grow with the logarithm of the
 * ranks, but where rank 0 gathers. */
#include "check.h"

#include "base/log.h"
#include "base/range.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/lock.h"
#include "comm/grid.h"
#include "comm/lanes.h"
#include "comm/roll_call.h"
#include "cpu/cpu.h"
#include "deck/fields.h"
#include "state/initialise.h"
#include "file/block.h"
#include "monitor/watch.h"
#include "setup/settings.h"
#include "stores.h"
#include "train/control.h"
#include "train/host_count.h"
#include "train/session.h"
#include "train/start.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* -- Memory ------------------------------------------------------------------------------------------------------- */

/* The process's allocations go through these functions, which count. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);

static atomic_llong allocated; /* bytes that were allocated so far, whether freed or not: nothing hides below a peak */

static void *add(void *block)
{
    atomic_fetch_add(&allocated, (long long)malloc_usable_size(block));
    return block;
}

void *malloc(size_t bytes)
{
    return add(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return add(__libc_calloc(count, bytes));
}

void *realloc(void *block, size_t bytes)
{
    const long long before = (long long)malloc_usable_size(block);
    void *grown = __libc_realloc(block, bytes);
    atomic_fetch_add(&allocated, (long long)malloc_usable_size(grown) - before);
    return grown;
}

/* -- Other ranks --------------------------------------------------------------------------------------------------- */

struct message {
    int64_t bytes;
    void *data;
};

/* The broadcasts of rank 0, in order: what it sent when this process acted as rank 0 is what other ranks receive. */
static struct {
    struct message *messages;
    int64_t count, capacity, next;
    bool saving;    /* gathers are of hashed blocks */
    bool deaf;      /* other ranks make no such broadcast */
    int64_t blocks; /* of the checkpoint */
} others;

static void record(const void *data, int64_t bytes)
{
    if (others.count == others.capacity) {
        others.capacity = 2 * others.capacity + 64;
        others.messages = memory_grow(others.messages, others.capacity * (int64_t)sizeof *others.messages);
    }
    void *copy = memory_grow(NULL, bytes);
    memcpy(copy, data, (size_t)bytes);
    others.messages[others.count++] = (struct message){bytes, copy};
}

static void forget(void)
{
    for (int64_t i = 0; i < others.count; i++)
        free(others.messages[i].data);
    others.count = others.next = 0;
}

/* self: the rank of the world that this process acts as. */
static void hear(void *self, const struct comm *comm, enum counting_call call, void *out, int64_t bytes, int root)
{
    const int world_rank = *(const int *)self;
    if (call == COUNTING_GATHER && others.saving && comm->rank == 0) /* the other ranks' blocks would be this one's */
        memset((char *)out + bytes, 0, (size_t)(bytes * (comm->size - 1)));
    struct rectangle *shares = out;
    if (call == COUNTING_ALL_GATHER && others.saving && bytes == sizeof *shares) /* of tensor ranks: side by side */
        for (int r = 0; r < comm->size; r++)
            shares[r].col = r * shares[r].cols;
    if (call != COUNTING_BROADCAST || root != 0)
        return;
    if (others.deaf)
        return;
    if (world_rank == 0) {
        record(out, bytes);
        return;
    }
    const struct message *sent = &others.messages[others.next];
    if (others.next++ == others.count || sent->bytes != bytes)
        error_fatal("rank %d receives %lld bytes that rank 0 did not send", world_rank, (long long)bytes);
    if (comm->rank != root)
        memcpy(out, sent->data, (size_t)bytes);
}

/* -- Phases of a run ----------------------------------------------------------------------------------------------- */

enum phase { START, LOADER, SAVE, FIND, LOAD, PHASES };
static const char *const phase_names[PHASES] = {"start", "loader", "save", "find", "load"};

struct cost {
    struct comm_traffic traffic;
    int64_t memory; /* bytes allocated */
    double seconds; /* of this thread on a core */
};

struct act {
    struct comm *world;
    struct comm_traffic traffic;
    struct cost costs[PHASES];
    struct comm_traffic before; /* until the current phase */
    long long allocated;
    double seconds;
};

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void begin(struct act *act)
{
    act->before = act->traffic;
    act->allocated = allocated;
    act->seconds = thread_seconds();
}

static void end(struct act *act, enum phase phase)
{
    act->costs[phase] = (struct cost){comm_traffic_since(&act->traffic, &act->before), allocated - act->allocated,
                                      thread_seconds() - act->seconds};
}

static int make_executor(struct executor **executor, const struct device_request *request)
{
    (void)request;
    *executor = cpu_executor_create(1);
    return ERROR_NONE;
}

/* What train/run.c does before the first step. */
static int start(struct act *act, struct session *session, struct setup *setup, struct deck *deck, char *overrides[])
{
    struct comm *world = act->world;
    struct rank_watch watch;
    struct run_control control;
    struct folder_lock lock = {0};
    const char *why;
    char *path = NULL, *aside = NULL;
    int made;
    int code = start_read_deck(world, deck, stores_path("deck.cfg"), NULL, overrides, 3);
    if (code == ERROR_NONE)
        code = comm_agree(world, setup_create(setup, deck, world->size));
    if (code == ERROR_NONE)
        code = comm_agree(world, settings_check(deck, world->size));
    if (code == ERROR_NONE)
        code = start_make_folder(world, setup->folder, &made);
    if (code == ERROR_NONE)
        code = lock_acquire(&lock, world, setup->folder);
    if (code == ERROR_NONE)
        code = start_find(world, setup, &path, &aside);
    if (code == ERROR_NONE)
        code = session_create(session, deck, world, NULL, make_executor);
    if (code != ERROR_NONE)
        return code;
    engine_initialise(&session->engine, 1);
    watch_open(&watch, world, session->executor, 0);
    control_open(&control, world, setup->folder, 0, 0);
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    control_close(&control);
    watch_close(&watch);
    lock_release(&lock, false);
    free(path);
    free(aside);
    return code;
}

static void begin_loader(struct session *s)
{
    struct loader *loader;
    CHECK(loader_create(&loader, &s->setup.train, s->world, s->grid.data_rank, s->grid.data_ranks) == ERROR_NONE);
    loader_destroy(loader);
}

static void save(struct session *s, const char *path)
{
    const struct checkpoint_meta meta = {.deck_text = "", .version = "test", .step = 1, .tokenizer = "nucleotide"};
    char temporary[700];
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    FILE *of_rank_0 = s->world->rank > 0 ? fopen(temporary, "w") : NULL;
    others.saving = true;
    CHECK(checkpoint_write(s->world, &s->engine, &meta, path, true) == ERROR_NONE);
    others.saving = false;
    if (of_rank_0 != NULL) {
        fclose(of_rank_0);
        unlink(temporary);
    }
}

/* Divides the blocks of a checkpoint as if many ranks had written it. */
static void divide_blocks(const char *path)
{
    enum { LENGTH = 1024 };
    struct block_list old = {0}, blocks = {0};
    int64_t bytes;
    char *side = block_side_path(path);
    const int descriptor = open(path, O_RDONLY);
    CHECK(block_list_read(&old, side, &bytes) == ERROR_NONE);
    for (int64_t i = 0; i < old.count; i++)
        for (int64_t done = 0; done < old.blocks[i].length; done += LENGTH) {
            struct hash_block block = old.blocks[i];
            block.offset += done;
            block.length = MIN(block.length - done, LENGTH);
            CHECK(block_hash_range(descriptor, path, block.offset, block.length, &block.hash) == ERROR_NONE);
            block_list_add(&blocks, block);
        }
    CHECK(blocks.count > 1000);
    others.blocks = blocks.count;
    CHECK(unlink(side) == 0 && block_list_write(&blocks, side, bytes) == ERROR_NONE);
    close(descriptor);
    block_list_destroy(&old);
    block_list_destroy(&blocks);
    free(side);
}

static bool same_traffic(const struct comm_traffic *a, const struct comm_traffic *b)
{
    return a->collectives == b->collectives && a->rounds == b->rounds && a->messages == b->messages &&
           a->bytes == b->bytes && a->world_messages == b->world_messages;
}

static void restart(struct act *act, struct session *s, const char *folder)
{
    char *path, *aside = NULL;
    struct checkpoint_meta meta;
    struct cost dry;
    bool damaged;
    begin(act);
    CHECK(checkpoint_find_to_load(s->world, folder, &path, &aside) == ERROR_NONE);
    CHECK(checkpoint_read_meta(s->world, path, &meta) == ERROR_NONE);
    end(act, FIND);
    begin(act);
    CHECK(checkpoint_load(s->world, &s->engine, path, true, &damaged) == ERROR_NONE && !damaged);
    end(act, LOAD);
    if (s->world->rank == 0) { /* what a plan counts is what a load costs */
        dry = act->costs[FIND];
        others.deaf = true;
        begin(act);
        checkpoint_dry_load(s->world, &s->engine, &meta, others.blocks);
        end(act, FIND);
        others.deaf = false;
        CHECK(same_traffic(&act->costs[FIND].traffic, &act->costs[LOAD].traffic));
        act->costs[FIND] = dry;
    }
    checkpoint_meta_destroy(&meta);
    free(path);
    free(aside);
}

/* What a plan counts for a save is what it costs. */
static void check_plan(const struct act *act, const struct session *s)
{
    struct host_traffic traffic;
    CHECK(host_count(&traffic, s->setup.deck, s->setup.model.vocabulary, s->world->size, 8) == ERROR_NONE);
    CHECK(same_traffic(&traffic.of[HOST_SAVE], &act->costs[SAVE].traffic));
    CHECK(traffic.communicators > 0 && traffic.rounds >= traffic.communicators);
    CHECK(traffic.of[HOST_START].communicators == 10);
}

static void run(struct act *act, char *const layout[2])
{
    static struct session session;
    struct setup setup = {0};
    struct deck *deck = deck_create();
    char folder[500], where[600], path[600];
    char *overrides[] = {where, layout[0], layout[1]};
    snprintf(folder, sizeof folder, "%s", stores_path("run"));
    snprintf(where, sizeof where, "output.folder=%s", folder);
    snprintf(path, sizeof path, "%s/step_00000001.h5", folder);
    begin(act);
    const int code = start(act, &session, &setup, deck, overrides);
    end(act, START);
    CHECK(code == ERROR_NONE);
    if (code == ERROR_NONE) {
        begin(act);
        begin_loader(&session);
        end(act, LOADER);
        begin(act);
        save(&session, path);
        end(act, SAVE);
        if (act->world->rank == 0) {
            check_plan(act, &session);
            divide_blocks(path);
        }
        restart(act, &session, folder);
    }
    session_destroy(&session);
    setup_destroy(&setup);
    memory_free(deck);
}

/* -- Worlds -------------------------------------------------------------------------------------------------------- */

#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

enum { WORLDS = 3, PLACES = 3, SLACK = 96 << 10 /* bytes of memory that differ from run to run */ };
static const int world_sizes[WORLDS] = {64, 1024, 16384};

/* What may grow with each rank of the world. */
static const struct {
    int gathers;    /* messages that rank 0 receives */
    int own, other; /* bytes that rank 0, and that another rank, allocates */
    int received;   /* bytes that another rank receives */
} per_rank[PHASES] = {
    [START] = {1, 160, 16, 0}, /* hosts, and tables for them; the loader */
    [LOADER] = {0, 16, 16, 0}, /* the micro-batches of each rank, to be assigned */
    [SAVE] = {2, 1024, 0, 0},  /* lists of hashed blocks; the seconds of each rank */
    [FIND] = {0, 0, 0, 0},     [LOAD] = {0, 0, 0, 0},
};

static void print(int rank, int ranks, enum phase phase, const struct cost *cost)
{
    const struct comm_traffic *t = &cost->traffic;
    printf("rank %5d of %5d, %-7s: %3lld collectives, %4lld rounds, %5lld messages, %8lld bytes; %7lld messages of all "
           "ranks, %2lld communicators; %8lld bytes allocated, %.3f s\n",
           rank, ranks, phase_names[phase], (long long)t->collectives, (long long)t->rounds, (long long)t->messages,
           (long long)t->bytes, (long long)t->world_messages, (long long)t->communicators, (long long)cost->memory,
           cost->seconds);
}

/* Compares the costs of a phase in two worlds. `logs`: the quotient of the logarithms of their sizes. */
static bool check_growth(enum phase phase, bool first, const struct cost *small, const struct cost *large, int ranks,
                         int more, double logs)
{
    const struct comm_traffic *s = &small->traffic, *l = &large->traffic;
    const int64_t gathered = (int64_t)more * (first ? per_rank[phase].gathers : 0);
    const int64_t allocated_more = (int64_t)more * (first ? per_rank[phase].own : per_rank[phase].other);
    const int failures = check_failures;
    CHECK(l->collectives <= s->collectives && l->communicators == s->communicators);
    CHECK((double)l->rounds <= logs * (double)s->rounds);
    CHECK((double)l->messages <= logs * (double)s->messages + (double)gathered);
    CHECK((double)l->world_messages <= logs * ((double)more / ranks + 1) * (double)s->world_messages);
    if (!first)
        CHECK((double)l->bytes <= logs * (double)s->bytes + (double)more * per_rank[phase].received);
    CHECK(large->memory <= small->memory + allocated_more + SLACK);
    CHECK(large->seconds <= small->seconds + 0.05); /* ranks x ranks operations take longer */
    return check_failures == failures;
}

static void act_as(int rank, int ranks, char *const layout[2], struct cost costs[PHASES])
{
    struct act act = {0};
    others.next = 0;
    act.world = comm_counting(&(struct counting_settings){
        .rank = rank, .size = ranks, .node = 8, .traffic = &act.traffic, .rule = hear, .self = &rank});
    log_open(rank);
    run(&act, layout);
    comm_destroy(act.world);
    CHECK(others.next == (rank > 0 ? others.count : 0));
    memcpy(costs, act.costs, sizeof act.costs);
}

static void test_layout(char *const layout[2])
{
    static struct cost costs[WORLDS][PLACES][PHASES];
    for (int w = 0; w < WORLDS; w++) {
        const int ranks[PLACES] = {0, world_sizes[w] / 2 + 5, world_sizes[w] - 1};
        for (int p = 0; p < PLACES; p++)
            act_as(ranks[p], world_sizes[w], layout, costs[w][p]);
        forget();
        char command[600];
        snprintf(command, sizeof command, "rm -r '%s'", stores_path("run"));
        CHECK(system(command) == 0);
    }
    const int ranks = world_sizes[1], more = world_sizes[2] - ranks;
    for (int p = 0; p < PLACES; p++)
        for (enum phase phase = 0; phase < PHASES; phase++)
            if (!check_growth(phase, p == 0, &costs[1][p][phase], &costs[2][p][phase], ranks, more,
                              1.5)) /* log 16384 / log 1024 is 1.4, of groups up to 1.8 */
                for (int w = 0; w < WORLDS; w++)
                    print(p == 0   ? 0
                          : p == 1 ? world_sizes[w] / 2 + 5
                                   : world_sizes[w] - 1,
                          world_sizes[w], phase, &costs[w][p][phase]);
}

/* The stages of a pipeline open all lanes, both ends of each in the same round, and none waits for another stage. */
static void test_lanes(void)
{
    for (int size = 2; size <= GRID_STAGES; size++) {
        int opened[LANE_WAYS * GRID_STAGES] = {0};
        for (int round = 0; round < LANE_ROUNDS; round++) {
            int ends[LANE_WAYS * GRID_STAGES] = {0}, senders[LANE_WAYS * GRID_STAGES] = {0};
            for (int rank = 0; rank < size; rank++) {
                const enum transfer_direction lane = lane_in_round(rank, size, round);
                if (lane == TRANSFER_DIRECTIONS)
                    continue;
                const int number = lane_number(rank, size, lane);
                ends[number]++;
                senders[number] += lane == SEND_TO_NEXT || lane == SEND_TO_PREVIOUS;
            }
            for (int i = 0; i < LANE_WAYS * size; i++) {
                CHECK(ends[i] == 2 * senders[i] && senders[i] <= 1);
                opened[i] += senders[i];
            }
        }
        for (int i = 0; i < LANE_WAYS * size; i++)
            CHECK(opened[i] == 1);
    }
}

/* Whichever of the lowest ranks are missing, a roll call takes as many messages as there are ranks, times a constant.
 */
static void test_roll_call(void)
{
    static const double HEARD = 0.1; /* a waiting rank looks more often */
    for (int w = 0; w < WORLDS; w++) {
        const int size = world_sizes[w], missing[] = {0, 1, 8, size / 2, size - 2};
        CHECK(roll_call_traffic(size, 0, HEARD).messages == 2 * (size - 1));
        CHECK(roll_call_traffic(size, 0, HEARD).world_messages == 2 * (size - 1));
        for (int i = 0; i < LENGTH(missing); i++)
            CHECK(roll_call_traffic(size, missing[i], HEARD).world_messages <= 52 * (int64_t)size);
        CHECK(roll_call_turn(size - 1, roll_call_turn_seconds) < 125);
    }
}

static void write_files(void)
{
    stores_write_periodic(stores_path("five.h5"));
    FILE *deck = fopen(stores_path("deck.cfg"), "w");
    fprintf(deck,
            "model = { layers = 4; hidden = 64; ffn = 128; heads = 8; };\n"
            "data = { train = \"%s\"; row_tokens = 64; window = 48; };\n"
            "train = { global_batch = 16; micro_batch = 1; };\n"
            "schedule = { kind = \"constant\"; };\n"
            "device = { threads = 1; };\n",
            stores_path("five.h5"));
    fclose(deck);
}

int main(void)
{
    static char *const layouts[][2] = {{"parallel.shard=full", "parallel.pipeline=1"},
                                       {"parallel.tensor=8", "parallel.pipeline=4"}};
    stores_begin();
    write_files();
    for (int i = 0; i < LENGTH(layouts); i++)
        test_layout(layouts[i]);
    test_roll_call();
    test_lanes();
    stores_end();
    return check_end();
}
