/* Pipeline schedules of 2 to 8 stages, 1 to 4 parts each and up to 32 micro-batches work: no stage hangs, each message
 * is the expected one, stages wait exactly (p - 1) / (v M), and the slots suffice. Layers are assigned evenly, as in
 * Llama 3.1 405B. */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "architecture/stages.h"
#include "engine/schedule.h"

#include <string.h>

enum { MOST_STAGES = 8, MOST_MICRO_BATCHES = 32, MOST_CHUNKS = 4, FORWARD_TIME = 12, BACKWARD_TIME = 24 };

/* A message: what enters a slice, or the gradient that enters it from behind. */
struct message {
    bool backward;
    int micro_batch, slice;
};

/* What a stage sends one way, in its order. */
struct channel {
    struct message sent[MOST_CHUNKS * MOST_MICRO_BATCHES];
    int64_t sent_at[MOST_CHUNKS * MOST_MICRO_BATCHES], received_at[MOST_CHUNKS * MOST_MICRO_BATCHES];
    int number[MOST_CHUNKS * MOST_MICRO_BATCHES]; /* of all that the stage sends */
    int sends, receives;
};

enum phase { RECEIVE, RUN, SEND, SENT };

struct stage {
    struct schedule schedule;
    int next; /* action, and what of it */
    enum phase phase;
    int64_t time, busy;
    int sends, received;                               /* messages sent; of these, the first that have been received */
    int64_t received_at;                               /* the last of them */
    int forwards[MOST_CHUNKS], backwards[MOST_CHUNKS]; /* done */
};

/* What a send waits for: nothing, as where messages are kept for whoever comes; the message before it on the same way,
 * while those of both ways travel one after the other, as where they are handed from rank to rank
 * (engine/engine_pipeline.c); or that it is received itself. */
enum sends { SENDS_FREE, SENDS_BEHIND, SENDS_WAITING };

static struct stage stages[MOST_STAGES];
static struct channel channels[MOST_STAGES][2]; /* forward, backward */
static struct pipeline_parallel shape;
static int micro_batches;
static enum sends sends;

static const struct schedule_action *action_of(const struct stage *s)
{
    return &s->schedule.actions[s->next];
}

/* The slice that an action computes; with `way` 1 and -1, where its message comes from or goes to. */
static int slice_of(int stage, int way)
{
    return action_of(&stages[stage])->chunk * shape.stages + stage + way;
}

static bool is_slice(int slice)
{
    return slice >= 0 && slice < stage_slices(&shape);
}

static struct message message_into(int stage, int slice)
{
    const struct schedule_action *action = action_of(&stages[stage]);
    return (struct message){action->kind == ACTION_BACKWARD, action->micro_batch, slice};
}

/* Returns whether the stage has what its action reads. */
static bool receive(int stage)
{
    struct stage *s = &stages[stage];
    const bool backward = action_of(s)->kind == ACTION_BACKWARD;
    const int from = slice_of(stage, backward ? 1 : -1);
    if (!is_slice(from))
        return true;
    struct stage *sender = &stages[from % shape.stages];
    struct channel *channel = &channels[from % shape.stages][backward];
    const int k = channel->receives;
    if (channel->sends <= k || (sends == SENDS_BEHIND && channel->number[k] > sender->received))
        return false;
    const struct message wanted = message_into(stage, slice_of(stage, 0)), *got = &channel->sent[k];
    CHECK(got->backward == wanted.backward && got->micro_batch == wanted.micro_batch && got->slice == wanted.slice);
    int64_t there = channel->sent_at[k];
    if (sends == SENDS_BEHIND && sender->received_at > there)
        there = sender->received_at;
    s->time = there > s->time ? there : s->time;
    sender->received++;
    sender->received_at = channel->received_at[k] = s->time;
    channel->receives++;
    return true;
}

/* Returns whether the stage goes on. */
static bool send(int stage)
{
    struct stage *s = &stages[stage];
    const bool backward = action_of(s)->kind == ACTION_BACKWARD;
    const int to = slice_of(stage, backward ? -1 : 1);
    struct channel *channel = &channels[stage][backward];
    if (!is_slice(to))
        return true;
    if (s->phase == SEND) {
        const int k = channel->sends;
        if (sends == SENDS_BEHIND && channel->receives < k)
            return false;
        if (sends == SENDS_BEHIND && k > 0 && channel->received_at[k - 1] > s->time)
            s->time = channel->received_at[k - 1];
        channel->sent[k] = message_into(stage, to);
        channel->sent_at[k] = s->time;
        channel->number[k] = s->sends++;
        channel->sends++;
        s->phase = SENT;
    }
    return sends != SENDS_WAITING || channel->receives == channel->sends;
}

/* Chunks have their micro-batches in order, each once, and a slot of their own from forward to backward. */
static void run_action(int stage, const struct schedule_action *a)
{
    struct stage *s = &stages[stage];
    const bool backward = a->kind == ACTION_BACKWARD;
    const int64_t time = (backward ? BACKWARD_TIME : FORWARD_TIME) / shape.chunks;
    int *done = backward ? &s->backwards[a->chunk] : &s->forwards[a->chunk];
    CHECK(a->micro_batch == (*done)++ && s->backwards[a->chunk] <= s->forwards[a->chunk]);
    CHECK(s->forwards[a->chunk] - s->backwards[a->chunk] <= s->schedule.slots[a->chunk]);
    CHECK(a->slot == a->micro_batch % s->schedule.slots[a->chunk]);
    CHECK(a->first == (backward && a->micro_batch == 0));
    CHECK(a->last == (backward && a->micro_batch == micro_batches - 1));
    CHECK(a->gradients == (backward ? GRADIENT_BOTH : 0));
    s->time += time;
    s->busy += time;
}

/* Goes on until something is waited for; returns whether anything was done. */
static bool advance(int stage)
{
    struct stage *s = &stages[stage];
    const int before = s->next;
    const enum phase phase = s->phase;
    while (s->next < s->schedule.count) {
        if (s->phase == RECEIVE) {
            if (!receive(stage))
                break;
            s->phase = RUN;
        }
        if (s->phase == RUN) {
            run_action(stage, action_of(s));
            s->phase = SEND;
        }
        if (!send(stage))
            break;
        s->phase = RECEIVE;
        s->next++;
    }
    return s->next > before || s->phase != phase;
}

/* Goes through it; returns whether all stages come to their ends. */
static bool run_all(int64_t *longest)
{
    memset(channels, 0, sizeof channels);
    for (int stage = 0; stage < shape.stages; stage++) {
        struct pipeline_parallel pipeline = shape;
        pipeline.stage = stage;
        stages[stage] = (struct stage){.schedule = schedule_pipeline(micro_batches, &pipeline)};
    }
    for (bool any = true; any;) {
        any = false;
        for (int stage = 0; stage < shape.stages; stage++)
            any |= advance(stage);
    }
    bool over = true;
    *longest = 0;
    for (int stage = 0; stage < shape.stages; stage++) {
        over &= stages[stage].next == stages[stage].schedule.count;
        *longest = stages[stage].time > *longest ? stages[stage].time : *longest;
    }
    return over;
}

static void destroy_all(void)
{
    for (int stage = 0; stage < shape.stages; stage++)
        schedule_destroy(&stages[stage].schedule);
}

static void check_schedule(void)
{
    int64_t longest;
    const int64_t ideal = (int64_t)micro_batches * (FORWARD_TIME + BACKWARD_TIME);
    const bool over = run_all(&longest);
    if (!CHECK(over && (longest - ideal) * shape.chunks * micro_batches == (shape.stages - 1) * ideal))
        fprintf(stderr, "    %d stages, %d chunks, %d micro-batches, sends %d: %s, %lld for %lld\n", shape.stages,
                shape.chunks, micro_batches, (int)sends, over ? "ends" : "hangs", (long long)longest, (long long)ideal);
    for (int stage = 0; stage < shape.stages; stage++) {
        const struct stage *s = &stages[stage];
        CHECK(s->busy == ideal);
        for (int c = 0; c < shape.chunks; c++)
            CHECK(s->forwards[c] == micro_batches && s->backwards[c] == micro_batches);
        const int left = shape.stages - stage;
        if (shape.chunks == 1)
            CHECK(s->schedule.slots[0] == (left < micro_batches ? left : micro_batches));
    }
    destroy_all();
}

static void test_schedules(void)
{
    for (shape.stages = 2; shape.stages <= MOST_STAGES; shape.stages++)
        for (shape.chunks = 1; shape.chunks <= MOST_CHUNKS; shape.chunks++)
            for (micro_batches = 1; micro_batches <= MOST_MICRO_BATCHES; micro_batches++)
                for (sends = SENDS_FREE; sends <= SENDS_BEHIND; sends++)
                    if (shape.chunks == 1 || micro_batches % shape.stages == 0)
                        check_schedule();
}

/* Sends that wait until they are received hang in both kinds of schedule. */
static void test_waiting(void)
{
    int64_t longest;
    sends = SENDS_WAITING;
    for (int chunks = 1; chunks <= 2; chunks++) {
        shape = (struct pipeline_parallel){.stages = 2, .chunks = chunks};
        micro_batches = 4;
        CHECK(!run_all(&longest));
        destroy_all();
    }
}

/* -- Layers ------------------------------------------------------------------------------------------------------ */

/* As one number: the digits are the slices' layers. */
static int64_t balanced(int64_t layers, int slices, int balance, int64_t vocabulary)
{
    const struct model_settings settings = {.family = &family_llama,
                                            .layers = layers,
                                            .hidden = 64,
                                            .ffn = 128,
                                            .heads = 4,
                                            .kv_heads = 4,
                                            .head_dim = 16, /* a layer has 40960 elements */
                                            .vocabulary = vocabulary,
                                            .pipeline = {.stages = slices, .chunks = 1, .balance = balance}};
    int counts[MOST_STAGES];
    int64_t all = 0, digits = 0;
    stages_balance(&settings, counts);
    for (int i = 0; i < slices; i++) {
        CHECK(counts[i] >= (balance == DECK_STAGES_LAYERS));
        all += counts[i];
        digits = 10 * digits + counts[i];
    }
    CHECK(all == layers);
    return digits;
}

static void test_layers(void)
{
    CHECK(balanced(8, 4, DECK_STAGES_LAYERS, 64) == 2222);
    CHECK(balanced(10, 4, DECK_STAGES_LAYERS, 64) == 2233); /* stages that come first keep more micro-batches */
    CHECK(balanced(5, 5, DECK_STAGES_ENDS, 64) == 1121);    /* the embedding has the first part for itself */
    CHECK(balanced(14, 4, DECK_STAGES_ENDS, 64) == 3443);
    CHECK(balanced(8, 4, DECK_STAGES_COST, 64) == 2222);       /* the head costs next to nothing */
    CHECK(balanced(8, 4, DECK_STAGES_COST, 640) == 2222);      /* as much as a layer */
    CHECK(balanced(11, 4, DECK_STAGES_COST, 640) == 3332);     /* likewise */
    CHECK(balanced(10, 4, DECK_STAGES_COST, 3 * 640) == 3331); /* as much as three */
    CHECK(balanced(6, 4, DECK_STAGES_COST, 3 * 640) == 2220);  /* the head has a part of its own */
    CHECK(balanced(8, 1, DECK_STAGES_COST, 640) == 8);
    /* Llama 3.1 405B as NVIDIA's benchmark has it: 126 layers and both ends in 64 parts of two */
    struct model_settings settings = {.family = &family_llama,
                                      .layers = 126,
                                      .pipeline = {.stages = 8, .chunks = 8, .balance = DECK_STAGES_ENDS},
                                      .vocabulary = 128256};
    settings.hidden = settings.ffn = settings.heads = settings.kv_heads = settings.head_dim = 64;
    int counts[64];
    stages_balance(&settings, counts);
    for (int i = 0; i < 64; i++)
        CHECK(counts[i] == (i % 63 == 0 ? 1 : 2));
    settings.layers = 30; /* and its proxy, whose first and last parts have no layer */
    settings.pipeline = (struct pipeline_parallel){.stages = 4, .chunks = 8, .balance = DECK_STAGES_ENDS};
    CHECK(stages_most_slices(&settings) == 32);
    stages_balance(&settings, counts);
    for (int i = 0; i < 32; i++)
        CHECK(counts[i] == (i % 31 == 0 ? 0 : 1));
}

/* A step of twice as many micro-batches as there are stages has all the slots that a longer one has: engines of long
 * steps are planned by it (setup/settings.c). */
static void test_slots(void)
{
    for (int count = 2; count <= MOST_STAGES; count++)
        for (int chunks = 1; chunks <= MOST_CHUNKS; chunks++)
            for (int stage = 0; stage < count; stage++) {
                const struct pipeline_parallel pipeline = {.stages = count, .stage = stage, .chunks = chunks};
                struct schedule a = schedule_pipeline(2 * count, &pipeline),
                                b = schedule_pipeline(7 * count, &pipeline);
                CHECK(memcmp(a.slots, b.slots, sizeof a.slots) == 0);
                schedule_destroy(&a);
                schedule_destroy(&b);
            }
}

int main(void)
{
    test_schedules();
    test_slots();
    test_waiting();
    test_layers();
    return check_end();
}
