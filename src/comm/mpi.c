/* Communicators over MPI (MPI-3.1; FUNNELED: only the main thread calls MPI). MPI's counts are int, so large transfers
 * are split. Collectives are started without blocking and polled, so that this file decides how a rank waits
 * (base/waiting.h), for how long, and can name the missing ranks. */
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/signals.h"
#include "base/waiting.h"
#include "comm/comm.h"
#include "comm/roll_call.h"

#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIECE_BYTES = 1 << 30, HOST_BYTES = 60, MOST_NAMED = 8 };

struct member {
    int32_t rank; /* in MPI_COMM_WORLD */
    char host[HOST_BYTES];
};

/* The last message sent in one direction: a copy, since it may still be in flight when mpi_send_receive returns. */
struct posted {
    char *data;
    int64_t capacity;
    MPI_Request *requests; /* one for each piece; `count` are in use */
    int count;
};

enum { WAY_FORWARD, WAY_BACKWARD, WAYS };

struct mpi_comm {
    MPI_Comm handle;
    struct member *members; /* by rank in this communicator */
    int64_t started;        /* number of collectives started */
    struct posted posted[WAYS];
};

static struct mpi_comm *own_of(const struct comm *comm)
{
    return comm->self;
}

static MPI_Comm handle_of(const struct comm *comm)
{
    return own_of(comm)->handle;
}

static void verify(int status, const char *what)
{
    if (status == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(status, text, &length);
    error_fatal("%s: %s", what, text);
}

/* -- Naming the ranks that a rank waits for ----------------------------------------------------------------------- */

/* Roll call: a rank that has waited for long sends an empty message to each other rank. A rank that is waiting itself
 * answers. A rank that does not answer may be stopped, lost or busy. MPI_COMM_WORLD carries no other messages.
 *
 * All ranks of a hang would call at the same time, with n^2 messages. So they call in turn (comm/roll_call.h), first
 * rank 0 of the communicator; a rank that a lower rank has just called leaves the report to it. */
enum { TAG_CALL = 1, TAG_HERE = 2 };

/* A rank answers roll calls after it has waited for this long (comm/roll_call.h). */
static const double ATTEND_SECONDS = 1.0;

static int world_rank;                     /* this rank in MPI_COMM_WORLD */
static double called_by_lower = -HUGE_VAL; /* clock when a lower rank called last */

/* After this time, a wait that delays a stop request is reported. */
static const double REQUEST_SECONDS = 5.0;

/* A wait that takes longer than this share of its limit is reported. */
static const double LATE_SHARE = 0.1;

struct presence {
    int absent, lowest; /* number of absent ranks; the lowest rank of the group that is present */
    char text[MOST_NAMED * (HOST_BYTES + 32)];
};

static void send_empty(int rank, int tag)
{
    MPI_Request request;
    verify(MPI_Isend(NULL, 0, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &request), "MPI_Isend");
    verify(MPI_Request_free(&request), "MPI_Request_free");
}

/* Receives the next message with this tag. Returns its sender, or -1 if there is none. */
static int take_empty(int tag)
{
    int there;
    MPI_Status status;
    verify(MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, &status), "MPI_Iprobe");
    if (!there)
        return -1;
    verify(MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    return status.MPI_SOURCE;
}

static void answer_calls(void)
{
    for (int rank = take_empty(TAG_CALL); rank >= 0; rank = take_empty(TAG_CALL)) {
        send_empty(rank, TAG_HERE);
        if (rank < world_rank)
            called_by_lower = clock_seconds();
    }
}

/* Returns whether a lower rank has called in the last `seconds`: it reports what this rank waits for. */
static bool is_reported(double seconds)
{
    return clock_seconds() - called_by_lower < seconds;
}

enum { MOST_REQUESTS = 2 /* of one collective */ };

/* A collective that this rank waits for; without requests, a wait for something other than MPI. */
struct wait {
    struct comm *comm;
    const char *what; /* name of the collective */
    MPI_Request requests[MOST_REQUESTS];
    int count, done;
    bool logged, request_logged;
};

static void ask_after(struct wait *wait)
{
    if (wait->count > 0)
        verify(MPI_Testall(wait->count, wait->requests, &wait->done, MPI_STATUSES_IGNORE), wait->what);
}

/* Returns the rank in comm of a rank of MPI_COMM_WORLD; -1 if it is not in comm. Ranks of comm have the world's order.
 */
static int rank_of(const struct comm *comm, int32_t rank)
{
    const struct member *members = own_of(comm)->members;
    int first = 0, end = comm->size;
    while (first < end) {
        const int middle = (first + end) / 2;
        if (members[middle].rank < rank)
            first = middle + 1;
        else
            end = middle;
    }
    return first < comm->size && members[first].rank == rank ? first : -1;
}

/* Sets the flags of the ranks of the group that answer. Ends early if nobody is missing or the wait is over. */
static void listen(struct wait *wait, bool *here)
{
    const struct comm *comm = wait->comm;
    int missing = comm->size - 1;
    struct rank_waiting waiting = {0};
    while (!wait->done && missing > 0 && waiting_turn(&waiting) < roll_call_listening) {
        answer_calls();
        for (int rank = take_empty(TAG_HERE); rank >= 0; rank = take_empty(TAG_HERE)) {
            const int r = rank_of(comm, rank);
            if (r >= 0 && !here[r]) {
                here[r] = true;
                missing--;
            }
        }
        ask_after(wait);
    }
}

/* Lists the absent ranks. The list is invalid if the wait ended meanwhile. */
static struct presence call_roll(struct wait *wait)
{
    const struct comm *comm = wait->comm;
    const struct member *members = own_of(comm)->members;
    bool *here = memory_allocate((int64_t)sizeof *here * comm->size);
    while (take_empty(TAG_HERE) >= 0) /* late answers to an earlier roll call */
        ;
    here[comm->rank] = true;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank)
            send_empty(members[r].rank, TAG_CALL);
    listen(wait, here);
    struct presence presence = {.lowest = comm->rank};
    for (int r = comm->size - 1; r >= 0; r--)
        presence.lowest = here[r] ? r : presence.lowest;
    size_t used = 0;
    for (int r = 0; r < comm->size; r++)
        if (!here[r] && presence.absent++ < MOST_NAMED)
            used += (size_t)snprintf(presence.text + used, sizeof presence.text - used, "%srank %d on %s",
                                     presence.absent > 1 ? ", " : "", (int)members[r].rank, members[r].host);
    if (presence.absent > MOST_NAMED)
        snprintf(presence.text + used, sizeof presence.text - used, " and %d more", presence.absent - MOST_NAMED);
    if (presence.absent == 0)
        snprintf(presence.text, sizeof presence.text, "none, all ranks wait");
    memory_free(here);
    return presence;
}

/* -- Roll calls for other threads --------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t one;  /* one thread asks at a time */
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t answered;
    struct comm *comm; /* whose roll call is requested; NULL = none */
    double since;      /* clock when it was requested */
    struct presence presence;
} wanted = {.one = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};

/* Requests a roll call from the main thread and waits for its result, somewhat longer than call_roll takes. */
static void mpi_missing(struct comm *comm, char *text, int64_t bytes)
{
    struct timespec end;
    int failed = 0;
    pthread_mutex_lock(&wanted.one);
    pthread_mutex_lock(&wanted.lock);
    wanted.comm = comm;
    wanted.since = clock_seconds();
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(10 * ATTEND_SECONDS); /* the main thread may be late on a busy machine */
    while (wanted.comm != NULL && failed == 0)
        failed = pthread_cond_timedwait(&wanted.answered, &wanted.lock, &end);
    snprintf(text, (size_t)bytes, "%s", wanted.comm == NULL ? wanted.presence.text : "unknown, this rank is computing");
    wanted.comm = NULL;
    pthread_mutex_unlock(&wanted.lock);
    pthread_mutex_unlock(&wanted.one);
}

static void call_wanted_roll(void)
{
    pthread_mutex_lock(&wanted.lock);
    struct comm *comm = wanted.comm;
    const double since = wanted.since;
    pthread_mutex_unlock(&wanted.lock);
    if (comm == NULL || is_reported(roll_call_turn_seconds) ||
        clock_seconds() < since + roll_call_turn(comm->rank, roll_call_turn_seconds / 16))
        return;
    const struct presence presence = call_roll(&(struct wait){.comm = comm});
    pthread_mutex_lock(&wanted.lock);
    wanted.presence = presence;
    wanted.comm = NULL;
    pthread_cond_signal(&wanted.answered);
    pthread_mutex_unlock(&wanted.lock);
}

static void attend_others(double waited)
{
    if (waited <= ATTEND_SECONDS)
        return;
    answer_calls();
    call_wanted_roll();
}

/* -- Waiting ------------------------------------------------------------------------------------------------------ */

/* Names the missing ranks. Only the lowest rank that is present prints. */
static void warn(struct wait *wait, double waited, double limit)
{
    const struct mpi_comm *own = own_of(wait->comm);
    const struct presence presence = call_roll(wait);
    if (wait->done || presence.lowest != wait->comm->rank)
        return;
    fprintf(stderr, "warning: rank %d on %s has waited for %.0f s in %s number %lld of %d ranks; missing: %s; %s",
            error_rank(), own->members[wait->comm->rank].host, waited, wait->what, (long long)own->started,
            wait->comm->size, presence.text,
            signals_stopping() ? "a request to stop has to wait too (a second SIGTERM ends the process); " : "");
    if (limit > 0)
        fprintf(stderr, "after %.0f s the run ends (comm.timeout)\n", limit);
    else
        fprintf(stderr, "comm.timeout sets no limit\n");
}

static void give_up(struct wait *wait, double waited)
{
    const struct mpi_comm *own = own_of(wait->comm);
    const struct presence presence = call_roll(wait);
    if (!wait->done)
        error_fatal("%s number %lld of %d ranks has not finished on %s after %.0f s (comm.timeout); missing: %s",
                    wait->what, (long long)own->started, wait->comm->size, own->members[wait->comm->rank].host, waited,
                    presence.text);
}

/* Called during waits of more than ATTEND_SECONDS: answers, reports, or gives up. */
static void attend(struct wait *wait, double waited)
{
    const double limit = comm_limit();
    attend_others(waited);
    const double each = limit > 0 ? MIN(roll_call_turn_seconds, LATE_SHARE * limit / 2) : roll_call_turn_seconds;
    const double in_turn = waited - roll_call_turn(wait->comm->rank, each);
    bool request = !wait->request_logged && in_turn > REQUEST_SECONDS && signals_stopping();
    bool late = !wait->logged && limit > 0 && in_turn > LATE_SHARE * limit;
    if (limit > 0 && in_turn > limit && !is_reported(roll_call_turn_seconds)) {
        give_up(wait, waited);
    } else if (request || late) {
        wait->request_logged = signals_stopping();
        wait->logged = true;
        if (!is_reported(waited))
            warn(wait, waited, limit);
    }
}

/* Waits until the requests of a collective have completed on this rank. */
static void await_all(struct wait *wait)
{
    struct rank_waiting waiting = {0};
    own_of(wait->comm)->started++;
    ask_after(wait);
    while (!wait->done) {
        double waited = waiting_turn(&waiting);
        if (waited > ATTEND_SECONDS)
            attend(wait, waited);
        if (!wait->done)
            ask_after(wait);
    }
}

static void await(struct comm *comm, const char *what, MPI_Request request)
{
    await_all(&(struct wait){.comm = comm, .what = what, .requests = {request}, .count = 1});
}

/* -- Collectives -------------------------------------------------------------------------------------------------- */

static void mpi_barrier(struct comm *comm)
{
    MPI_Request request;
    verify(MPI_Ibarrier(handle_of(comm), &request), "MPI_Ibarrier");
    await(comm, "barrier", request);
}

static void mpi_broadcast(struct comm *comm, void *data, int64_t bytes, int root)
{
    for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
        int64_t piece = MIN(bytes - done, PIECE_BYTES);
        MPI_Request request;
        verify(MPI_Ibcast((char *)data + done, (int)piece, MPI_BYTE, root, handle_of(comm), &request), "MPI_Ibcast");
        await(comm, "broadcast", request);
    }
}

/* Returns a type of `count` bytes of a block; block r begins r * bytes after block 0. */
static MPI_Datatype part_of_blocks(int64_t count, int64_t bytes)
{
    MPI_Datatype whole, part;
    verify(MPI_Type_contiguous((int)count, MPI_BYTE, &whole), "MPI_Type_contiguous");
    verify(MPI_Type_create_resized(whole, 0, (MPI_Aint)bytes, &part), "MPI_Type_create_resized");
    verify(MPI_Type_commit(&part), "MPI_Type_commit");
    verify(MPI_Type_free(&whole), "MPI_Type_free");
    return part;
}

static void mpi_gather(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    const bool in_place = comm->rank == 0 && in == out;
    for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
        const int64_t piece = MIN(bytes - done, PIECE_BYTES);
        MPI_Datatype part = part_of_blocks(piece, bytes);
        MPI_Request request;
        verify(MPI_Igather(in_place ? MPI_IN_PLACE : (const char *)in + done, 1, part,
                           comm->rank == 0 ? (char *)out + done : NULL, 1, part, 0, handle_of(comm), &request),
               "MPI_Igather");
        await(comm, "gather", request);
        verify(MPI_Type_free(&part), "MPI_Type_free");
    }
}

static void mpi_all_gather(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    const bool in_place = in == (const char *)out + comm->rank * bytes;
    if (comm_gathers_first(comm->size, bytes)) {
        mpi_gather(comm, in, out, bytes);
        mpi_broadcast(comm, out, bytes * comm->size, 0);
        return;
    }
    for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
        const int64_t piece = MIN(bytes - done, PIECE_BYTES);
        MPI_Datatype part = part_of_blocks(piece, bytes);
        MPI_Request request;
        verify(MPI_Iallgather(in_place ? MPI_IN_PLACE : (const char *)in + done, 1, part, (char *)out + done, 1, part,
                              handle_of(comm), &request),
               "MPI_Iallgather");
        await(comm, "all_gather", request);
        verify(MPI_Type_free(&part), "MPI_Type_free");
    }
}

static void mpi_reduce(struct comm *comm, int64_t *values, int64_t count, enum comm_reduction reduction)
{
    enum { MOST = PIECE_BYTES / (int)sizeof *values };
    const MPI_Op ops[] = {[COMM_MINIMUM] = MPI_MIN, [COMM_MAXIMUM] = MPI_MAX, [COMM_SUM] = MPI_SUM};
    for (int64_t done = 0; done < count; done += MOST) {
        const int piece = (int)MIN(count - done, MOST);
        MPI_Request request;
        verify(MPI_Iallreduce(MPI_IN_PLACE, values + done, piece, reduction == COMM_SUM ? MPI_UINT64_T : MPI_INT64_T,
                              ops[reduction], handle_of(comm), &request),
               "MPI_Iallreduce");
        await(comm, "reduce", request);
    }
}

static void mpi_all_to_all(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
        const int64_t piece = MIN(bytes - done, PIECE_BYTES);
        MPI_Datatype part = part_of_blocks(piece, bytes);
        MPI_Request request;
        verify(MPI_Ialltoall((const char *)in + done, 1, part, (char *)out + done, 1, part, handle_of(comm), &request),
               "MPI_Ialltoall");
        await(comm, "all_to_all", request);
        verify(MPI_Type_free(&part), "MPI_Type_free");
    }
}

static void mpi_shift(struct comm *comm, const void *in, void *out, int64_t bytes)
{
    const int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
    for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
        int piece = (int)MIN(bytes - done, PIECE_BYTES);
        struct wait wait = {.comm = comm, .what = "shift", .count = 2};
        verify(MPI_Irecv((char *)out + done, piece, MPI_BYTE, before, 0, handle_of(comm), &wait.requests[0]),
               "MPI_Irecv");
        verify(MPI_Isend((const char *)in + done, piece, MPI_BYTE, next, 0, handle_of(comm), &wait.requests[1]),
               "MPI_Isend");
        await_all(&wait);
    }
}

/* -- Send and receive -------------------------------------------------------------------------------------------- */

/* Each direction has a tag, since both may connect the same two ranks. */
static int tag_of(int way)
{
    return 1 + way;
}

static void await_posted(struct comm *comm, struct posted *posted)
{
    for (int i = 0; i < posted->count; i++)
        await(comm, "send_receive", posted->requests[i]);
    posted->count = 0;
}

/* Sends a copy of a message, after the previous one has been received. */
static void post(struct comm *comm, int way, int peer, const void *data, int64_t bytes)
{
    struct posted *posted = &own_of(comm)->posted[way];
    await_posted(comm, posted);
    if (bytes > posted->capacity) {
        const int64_t pieces = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
        posted->data = memory_grow(posted->data, bytes);
        posted->requests = memory_grow(posted->requests, pieces * (int64_t)sizeof *posted->requests);
        posted->capacity = bytes;
    }
    memcpy(posted->data, data, (size_t)bytes);
    for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
        const int64_t piece = MIN(bytes - done, PIECE_BYTES);
        verify(MPI_Isend(posted->data + done, (int)piece, MPI_BYTE, peer, tag_of(way), handle_of(comm),
                         &posted->requests[posted->count++]),
               "MPI_Isend");
    }
}

static void receive(struct comm *comm, int way, int peer, void *data, int64_t bytes)
{
    for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
        const int64_t piece = MIN(bytes - done, PIECE_BYTES);
        MPI_Request request;
        verify(MPI_Irecv((char *)data + done, (int)piece, MPI_BYTE, peer, tag_of(way), handle_of(comm), &request),
               "MPI_Irecv");
        await(comm, "send_receive", request);
    }
}

static void mpi_send_receive(struct comm *comm, void *const data[TRANSFER_DIRECTIONS],
                             const int64_t bytes[TRANSFER_DIRECTIONS])
{
    const int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
    if (bytes[SEND_TO_NEXT] > 0)
        post(comm, WAY_FORWARD, next, data[SEND_TO_NEXT], bytes[SEND_TO_NEXT]);
    if (bytes[SEND_TO_PREVIOUS] > 0)
        post(comm, WAY_BACKWARD, before, data[SEND_TO_PREVIOUS], bytes[SEND_TO_PREVIOUS]);
    receive(comm, WAY_FORWARD, before, data[RECEIVE_FROM_PREVIOUS], bytes[RECEIVE_FROM_PREVIOUS]);
    receive(comm, WAY_BACKWARD, next, data[RECEIVE_FROM_NEXT], bytes[RECEIVE_FROM_NEXT]);
}

/* -- Making ------------------------------------------------------------------------------------------------------ */

static struct comm *wrap(MPI_Comm handle, struct member *members);

static struct comm *mpi_split(struct comm *comm, int color)
{
    MPI_Comm part;
    mpi_barrier(comm); /* the MPI calls below block without a time limit, so let all ranks arrive first */
    verify(MPI_Comm_split(handle_of(comm), color, comm->rank, &part), "MPI_Comm_split");
    return wrap(part, NULL);
}

static struct comm *mpi_divide(struct comm *comm, int stride, int count)
{
    const struct comm_part part = comm_part(comm->rank, comm->size, stride, count);
    struct member *members = memory_allocate((int64_t)sizeof *members * part.size);
    for (int i = 0; i < part.size; i++)
        members[i] = own_of(comm)->members[part.first + i * stride];
    MPI_Group all, own;
    MPI_Comm made;
    int range[1][3] = {{part.first, part.first + (part.size - 1) * stride, stride}};
    mpi_barrier(comm);
    verify(MPI_Comm_group(handle_of(comm), &all), "MPI_Comm_group");
    verify(MPI_Group_range_incl(all, 1, range, &own), "MPI_Group_range_incl");
    verify(MPI_Comm_create(handle_of(comm), own, &made), "MPI_Comm_create");
    verify(MPI_Group_free(&own), "MPI_Group_free");
    verify(MPI_Group_free(&all), "MPI_Group_free");
    return wrap(made, members);
}

static struct comm *mpi_split_node(struct comm *comm)
{
    MPI_Comm part;
    mpi_barrier(comm);
    verify(MPI_Comm_split_type(handle_of(comm), MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &part),
           "MPI_Comm_split_type");
    return wrap(part, NULL);
}

static void mpi_destroy(struct comm *comm)
{
    struct mpi_comm *own = own_of(comm);
    for (int way = 0; way < WAYS; way++) {
        await_posted(comm, &own->posted[way]);
        free(own->posted[way].data);
        free(own->posted[way].requests);
    }
    mpi_barrier(comm); /* before MPI_Comm_free and MPI_Finalize, which wait without a limit */
    MPI_Comm_free(&own->handle);
    memory_free(own->members);
    memory_free(own);
}

static const struct comm_class mpi_class = {.barrier = mpi_barrier,
                                            .broadcast = mpi_broadcast,
                                            .all_gather = mpi_all_gather,
                                            .gather = mpi_gather,
                                            .reduce = mpi_reduce,
                                            .all_to_all = mpi_all_to_all,
                                            .shift = mpi_shift,
                                            .send_receive = mpi_send_receive,
                                            .split = mpi_split,
                                            .divide = mpi_divide,
                                            .split_node = mpi_split_node,
                                            .missing = mpi_missing,
                                            .destroy = mpi_destroy};

static void describe_members(struct comm *comm)
{
    struct member self = {0};
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    int length, rank;
    verify(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    verify(MPI_Get_processor_name(host, &length), "MPI_Get_processor_name");
    self.rank = world_rank = rank;
    snprintf(self.host, sizeof self.host, "%.*s", HOST_BYTES - 1, host);
    own_of(comm)->members = memory_allocate((int64_t)sizeof self * comm->size);
    own_of(comm)->members[comm->rank] = self;
    mpi_all_gather(comm, &self, own_of(comm)->members, sizeof self);
}

/* Makes a communicator, which owns `members`; NULL: the ranks tell each other. */
static struct comm *wrap(MPI_Comm handle, struct member *members)
{
    struct mpi_comm *own = memory_allocate(sizeof *own);
    struct comm *comm = memory_allocate(sizeof *comm);
    own->handle = handle;
    verify(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    *comm = (struct comm){0, 1, &mpi_class, own};
    verify(MPI_Comm_rank(handle, &comm->rank), "MPI_Comm_rank");
    verify(MPI_Comm_size(handle, &comm->size), "MPI_Comm_size");
    own->members = members;
    if (members == NULL)
        describe_members(comm);
    return comm;
}

struct comm *comm_open_mpi(void)
{
    MPI_Comm world;
    verify(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
    struct comm *comm = wrap(world, NULL);
    if (comm->size > 1)
        comm_on_attend(attend_others);
    return comm;
}
