#include "train/host_count.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "checkpoint/checkpoint.h"
#include "comm/lanes.h"
#include "comm/roll_call.h"
#include "deck/fields.h"
#include "file/block.h"
#include "monitor/watch.h"
#include "plan/plan.h"
#include "train/session.h"

#include <stdlib.h>
#include <string.h>

/* -- Other ranks ------------------------------------------------------------------------------------------------- */

struct others {
    int64_t blocks; /* hashed blocks of a rank in the last save */
};

/* Rank 0 gathers the blocks of all ranks; tensor ranks have the same rows side by side. */
static void hear(void *self, const struct comm *comm, enum counting_call call, void *out, int64_t bytes, int root)
{
    struct others *others = self;
    struct rectangle *shares = out;
    (void)root;
    if (call == COUNTING_GATHER && bytes % (int64_t)sizeof(struct hash_block) == 0) {
        others->blocks = bytes / (int64_t)sizeof(struct hash_block);
        memset((char *)out + bytes, 0, (size_t)(bytes * (comm->size - 1)));
    }
    if (call == COUNTING_ALL_GATHER && bytes == sizeof *shares)
        for (int r = 0; r < comm->size; r++)
            shares[r].col = r * shares[r].cols;
}

/* -- Groups between devices --------------------------------------------------------------------------------------- */

/* The result of host_count, for functions that have no other way to it. */
static struct host_traffic *counted;

static void count_communicators(int communicators, int rounds)
{
    counted->communicators += communicators;
    counted->rounds += rounds;
}

/* Counts a group as NCCL makes it (cuda/nccl_group.c): its ranks learn an id for each 128 of them. */
static struct group *make_group(struct executor *executor, struct comm *comm, const char *name)
{
    enum { RANKS_OF_AN_ID = 128, NUMBERS_OF_AN_ID = 16 };
    (void)executor;
    if (comm->size > 1) {
        const int numbers = (comm->size + RANKS_OF_AN_ID - 1) / RANKS_OF_AN_ID * NUMBERS_OF_AN_ID;
        int64_t *ids = memory_allocate(numbers * (int64_t)sizeof *ids);
        comm_reduce(comm, ids, numbers, COMM_SUM);
        memory_free(ids);
        count_communicators(1, 1);
    }
    return comm_group_create(comm, NULL, name);
}

/* Counts the lanes of a pipeline: each stage makes four, in as many rounds as any stage needs. */
static void count_lanes(struct comm *stages)
{
    enum { ID_BYTES = 128 };
    char *ids = memory_allocate(stages->size * (int64_t)(LANE_WAYS * ID_BYTES));
    comm_all_gather(stages, ids, ids, LANE_WAYS * ID_BYTES);
    memory_free(ids);
    for (int round = 0; round < LANE_ROUNDS; round++) {
        bool opens = false;
        for (int rank = 0; rank < stages->size; rank++)
            opens = opens || lane_in_round(rank, stages->size, round) != TRANSFER_DIRECTIONS;
        count_communicators(lane_in_round(stages->rank, stages->size, round) != TRANSFER_DIRECTIONS, opens);
    }
}

static int make_executor(struct executor **executor, const struct device_request *request)
{
    static const struct executor_groups groups = {.make = make_group};
    (void)request;
    *executor = plan_executor_create(NULL);
    (*executor)->owner = *executor;
    (*executor)->groups = &groups;
    return ERROR_NONE;
}

/* -- Work of hosts ------------------------------------------------------------------------------------------------ */

static int start(struct session *session, struct deck *deck, struct comm *world)
{
    struct rank_watch watch;
    comm_broadcast(world, deck, sizeof *deck, 0);
    int code = session_create(session, deck, world, NULL, make_executor);
    if (code != ERROR_NONE)
        return code;
    if (session->grid.stages->size > 1)
        count_lanes(session->grid.stages);
    watch_open(&watch, world, session->executor, 0);
    watch_close(&watch);
    return code;
}

/* Returns what was counted since the last call. */
static struct comm_traffic take(const struct comm_traffic *now, struct comm_traffic *before)
{
    const struct comm_traffic since = comm_traffic_since(now, before);
    *before = *now;
    return since;
}

static int count_all(struct host_traffic *traffic, struct deck *deck, int ranks, int node)
{
    static struct session session;
    struct others others = {0};
    struct comm_traffic now = {0}, before = {0};
    struct comm *world = comm_counting(&(struct counting_settings){
        .size = ranks, .node = node, .empty = true, .traffic = &now, .rule = hear, .self = &others});
    struct checkpoint_meta meta = {.deck_text = deck_print_effective(deck)};
    int code = start(&session, deck, world);
    traffic->of[HOST_START] = take(&now, &before);
    if (code == ERROR_NONE)
        code = checkpoint_write(world, &session.engine, &meta, "", true);
    traffic->of[HOST_SAVE] = take(&now, &before);
    if (code == ERROR_NONE)
        checkpoint_dry_load(world, &session.engine, &meta, others.blocks * ranks);
    traffic->of[HOST_LOAD] = take(&now, &before);
    traffic->of[HOST_ROLL_CALL] = roll_call_traffic(ranks, 0, 0);
    session_destroy(&session);
    free(meta.deck_text);
    comm_destroy(world);
    return code;
}

int host_count(struct host_traffic *traffic, const struct deck *deck, int64_t vocabulary, int64_t ranks, int64_t node)
{
    static const double ANY_MEMORY = 1e6; /* GiB: memory was checked before */
    struct deck *own = deck_copy(deck);
    const int64_t stages = own->parallel.pipeline, model = own->parallel.tensor * own->parallel.context * stages;
    /* a step of few rows: their number does not matter, and the loader allocates them */
    own->train.global_batch = MIN(own->train.global_batch, ranks / model * own->train.micro_batch * stages);
    own->data.source = DECK_DATA_RANDOM;
    own->model.vocabulary = vocabulary;
    own->device.memory = ANY_MEMORY;
    *traffic = (struct host_traffic){0};
    counted = traffic;
    error_open(1); /* other ranks than 0 log nothing */
    const int code = count_all(traffic, own, (int)ranks, (int)node);
    error_open(0);
    memory_free(own);
    return code;
}
