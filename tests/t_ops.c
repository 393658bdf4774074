/* What all ops of an executor share: the comparison with the oracle notices faults, a collective reaches the group's
 * table, and ops on several streams have their own scratch. Runs on the CPU executor, or with "cuda" on a GPU, as each
 * t_ops_KIND does. */
#include "ops.h"

/* -- The comparison with the oracle -------------------------------------------------------------------------------- */

/* An executor that runs swiglu on another one and then does one thing wrong. */
enum fault {
    FAULT_NONE,
    FAULT_VALUE,
    FAULT_UNWRITTEN,
    FAULT_BEYOND,
    FAULT_GAP,
    FAULT_INPUT,
    FAULT_UNSTEADY,
    FAULT_COUNT
};

struct faulty {
    struct executor executor; /* first, so that a pointer to it is a pointer to this */
    enum fault fault;
    int launches;
};

static void faulty_launch(struct executor *executor, struct stream *stream, enum op op, const void *args)
{
    struct faulty *faulty = (struct faulty *)executor;
    const struct swiglu_forward_args *a = args;
    int64_t row = a->y.rows - 1, col = a->y.cols - 1;
    executors[0]->class->launch(executors[0], stream, op, args);
    faulty->launches++;
    float *last = tensor_at(&a->y, row, col);
    switch (faulty->fault) {
    case FAULT_VALUE:
        *last *= 1.001f;
        break;
    case FAULT_UNWRITTEN:
        memset(last, 0xff, sizeof *last);
        break;
    case FAULT_BEYOND:
        last[1] = 0.0f;
        break;
    case FAULT_GAP:
        *(float *)tensor_at(&a->y, 0, col + 1) = 0.0f;
        break;
    case FAULT_INPUT:
        *(float *)tensor_at(&a->x, 0, 0) += 1.0f;
        break;
    case FAULT_UNSTEADY: /* within the bounds, yet not the same twice */
        *last = faulty->launches % 2 ? nextafterf(*last, 0.0f) : *last;
        break;
    case FAULT_NONE:
    case FAULT_COUNT:
        break;
    }
}

/* swiglu needs no scratch */
static int64_t faulty_workspace(struct executor *executor, enum op op, const void *args)
{
    (void)executor, (void)op, (void)args;
    return 0;
}

static void faulty_reserve(struct executor *executor, int stream, int64_t bytes)
{
    (void)executor, (void)stream, (void)bytes;
}

static void test_comparison(void)
{
    struct executor_class class = *executors[0]->class;
    class.launch = faulty_launch;
    class.workspace = faulty_workspace;
    class.reserve = faulty_reserve;
    for (enum fault fault = FAULT_NONE; fault < FAULT_COUNT; fault++) {
        struct faulty faulty = {.executor = {.class = &class}, .fault = fault};
        struct trial *trial = trial_create("fault %d", (int)fault);
        struct swiglu_forward_args args = {.x = trial_matrix(trial, DTYPE_F32, 3, 10, true, 1.0),
                                           .y = trial_strided(trial, DTYPE_F32, 3, 5, 8)};
        bounds_set(trial, OP_SWIGLU_FORWARD, &args);
        trial_expect(trial, OP_SWIGLU_FORWARD, &args);
        trial->quiet = true;
        CHECK((trial_compare(trial, &faulty.executor, OP_SWIGLU_FORWARD, &args) == 0) == (fault == FAULT_NONE));
        trial_destroy(trial);
    }
}

/* -- Collectives and scratch --------------------------------------------------------------------------------------- */

/* Collectives go to the group's table, once each, with the arguments as they are. */
static struct tensor seen[7];

static void see_all_reduce(struct group *group, struct stream *stream, const struct all_reduce_args *args)
{
    (void)stream;
    CHECK(args->group == group);
    seen[0] = args->x;
}

static void see_reduce_scatter(struct group *group, struct stream *stream, const struct reduce_scatter_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->in.rows == 2);
    seen[1] = args->out;
}

static void see_all_gather(struct group *group, struct stream *stream, const struct all_gather_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->in.rows == 1);
    seen[2] = args->out;
}

static void see_broadcast(struct group *group, struct stream *stream, const struct broadcast_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->root == 1);
    seen[3] = args->x;
}

static void see_all_to_all(struct group *group, struct stream *stream, const struct all_to_all_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->in.rows == 2);
    seen[4] = args->out;
}

static void see_shift(struct group *group, struct stream *stream, const struct shift_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->in.rows == 1);
    seen[5] = args->out;
}

static void see_send_receive(struct group *group, struct stream *stream, const struct send_receive_args *args)
{
    (void)stream;
    CHECK(args->group == group && !tensor_present(&args->to_next) && !tensor_present(&args->from_previous));
    CHECK(args->to_previous.rows == 2 && args->to_previous.data == args->from_next.data);
    seen[6] = args->from_next;
}

static void test_collectives(struct executor *executor)
{
    static const struct group_class class = {.name = "seen",
                                             .all_reduce = see_all_reduce,
                                             .reduce_scatter = see_reduce_scatter,
                                             .all_gather = see_all_gather,
                                             .broadcast = see_broadcast,
                                             .all_to_all = see_all_to_all,
                                             .shift = see_shift,
                                             .send_receive = see_send_receive};
    struct group group = {.name = "test", .rank = 0, .size = 2, .class = &class};
    float data[8] = {0};
    struct tensor one = tensor_vector(data, DTYPE_F32, 4), two = tensor_matrix(data, DTYPE_F32, 2, 4);
    struct stream stream = {.executor = executor, .id = STREAM_REDUCE};
    memset(seen, 0, sizeof seen);
    LAUNCH(&stream, ALL_REDUCE, all_reduce, .group = &group, .x = one);
    LAUNCH(&stream, REDUCE_SCATTER, reduce_scatter, .group = &group, .in = two, .out = one);
    LAUNCH(&stream, ALL_GATHER, all_gather, .group = &group, .in = one, .out = two);
    LAUNCH(&stream, BROADCAST, broadcast, .group = &group, .x = one, .root = 1);
    LAUNCH(&stream, ALL_TO_ALL, all_to_all, .group = &group, .in = two, .out = two);
    LAUNCH(&stream, SHIFT, shift, .group = &group, .in = one, .out = one);
    LAUNCH(&stream, SEND_RECEIVE, send_receive, .group = &group, .to_previous = two, .from_next = two);
    stream_synchronize(&stream);
    for (int i = 0; i < COUNT(seen); i++)
        CHECK(seen[i].data == data);
}

/* Ops with scratch on either stream, side by side; and a recording that worked in scratch which has since grown. */
static void test_scratch(struct executor *executor)
{
    enum { TERMS = 300007, TIMES = 8 };
    const struct executor_class *class = executor->class;
    struct stream streams[STREAM_COUNT];
    struct tensor host = tensor_vector(class->allocate(executor, TERMS * 4, MEMORY_HOST), DTYPE_F32, TERMS), x = host;
    struct tensor found =
                      tensor_vector(class->allocate(executor, STREAM_COUNT * 8, MEMORY_HOST), DTYPE_F64, STREAM_COUNT),
                  sums = found;
    x.data = class->allocate(executor, TERMS * 4, MEMORY_DEVICE);
    sums.data = class->allocate(executor, STREAM_COUNT * 8, MEMORY_DEVICE);
    for (int64_t i = 0; i < TERMS; i++)
        ((float *)host.data)[i] = i % 2 ? 1.0f : 2.0f;
    struct sum_squares_args args[STREAM_COUNT];
    int64_t bytes = 0;
    for (int s = 0; s < STREAM_COUNT; s++) {
        streams[s] = (struct stream){executor, s, NULL};
        args[s] = (struct sum_squares_args){.x = x, .sum = tensor_columns(&sums, s, 1)};
        bytes = class->workspace(executor, OP_SUM_SQUARES, &args[s]);
        class->reserve(executor, s, bytes);
    }
    CHECK(bytes > 0);
    LAUNCH(&streams[0], COPY, copy, .from = host, .to = x);
    stream_synchronize(&streams[0]);
    for (int i = 0; i < TIMES; i++)
        launch(&streams[i % STREAM_COUNT], OP_SUM_SQUARES, &args[i % STREAM_COUNT]);
    if (executor->capture != NULL) {
        executor->capture->begin(executor->owner, &streams[0]);
        launch(&streams[0], OP_SUM_SQUARES, &args[0]);
        void *recording = executor->capture->end(executor->owner, &streams[0]);
        class->reserve(executor, 0, 100 * bytes);
        struct tensor other = tensor_vector(class->allocate(executor, bytes, MEMORY_DEVICE), DTYPE_I16, bytes / 2);
        struct tensor seen_of_it = other;
        seen_of_it.data = class->allocate(executor, bytes, MEMORY_HOST);
        launch_replay(&streams[0], recording, "replay", 0);
        LAUNCH(&streams[0], COPY, copy, .from = other, .to = seen_of_it);
        stream_synchronize(&streams[0]);
        for (int64_t i = 0; i < bytes; i++)
            if (((char *)seen_of_it.data)[i] != 0) {
                CHECK(!"what was allocated since is written to");
                break;
            }
        executor->capture->discard(executor->owner, recording);
        class->release(executor, seen_of_it.data, MEMORY_HOST);
        class->release(executor, other.data, MEMORY_DEVICE);
    }
    for (int s = STREAM_COUNT - 1; s >= 0; s--)
        stream_synchronize(&streams[s]);
    LAUNCH(&streams[0], COPY, copy, .from = sums, .to = found);
    stream_synchronize(&streams[0]);
    for (int s = 0; s < STREAM_COUNT; s++)
        CHECK(((double *)found.data)[s] == (TERMS / 2) * 5 + 4);
    class->release(executor, x.data, MEMORY_DEVICE);
    class->release(executor, sums.data, MEMORY_DEVICE);
    class->release(executor, host.data, MEMORY_HOST);
    class->release(executor, found.data, MEMORY_HOST);
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    if (!on_device) /* its faults write where the host can */
        test_comparison();
    for (int i = 0; i < executor_count; i++)
        test_collectives(executors[i]);
    for (int i = 0; i < executor_count; i++)
        test_scratch(executors[i]);
    executors_close();
    return check_end();
}
