/* Schedules of pipelines: all stages of one are gone through together, as ranks would, where a relay waits for whom it
 * faces. Nothing hangs, each message is the one that is waited for, and stages wait as long as the formula says. */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/stages.h"
#include "step/schedule.h"

#include <string.h>

enum { MOST_STAGES = 8, MOST_MICRO_BATCHES = 32, MOST_CHUNKS = 4, FORWARD_TIME = 12, BACKWARD_TIME = 24 };

/* A message: what enters a slice, or the gradient that enters it from behind. */
struct message {
    bool backward;
    int micro_batch, slice;
};

/* Between two stages, in one direction; both ends take it in their order. */
struct channel {
    struct message sent[4 * MOST_CHUNKS * MOST_MICRO_BATCHES], received[4 * MOST_CHUNKS * MOST_MICRO_BATCHES];
    int64_t sent_at[4 * MOST_CHUNKS * MOST_MICRO_BATCHES], received_at[4 * MOST_CHUNKS * MOST_MICRO_BATCHES];
    int sends, receives;
};

struct stage {
    struct schedule schedule;
    int next; /* action */
    int64_t time, busy;
    int ends[RELAY_COUNT];                             /* of the relay at hand: places in channels; -1: not begun */
    int forwards[MOST_CHUNKS], backwards[MOST_CHUNKS]; /* done */
};

static struct stage stages[MOST_STAGES];
static struct channel channels[MOST_STAGES][MOST_STAGES];
static struct stage_cut shape;
static int micro_batches;
static bool one_by_one; /* each send waits for its receiver before the next part of a relay is begun */

static int slice_of(int stage, int chunk)
{
    return chunk * shape.stages + stage;
}

/* The next action of that kind from `from` on; before it, backwards. */
static const struct action *find(const struct stage *s, int from, enum action_kind kind, int step)
{
    for (int i = from; i >= 0 && i < s->schedule.count; i += step)
        if (s->schedule.actions[i].kind == kind)
            return &s->schedule.actions[i];
    return NULL;
}

/* What a relay moves that way: made by the action of its kind before it, or needed by the one behind it. */
static struct message message_of(int stage, enum relay relay)
{
    const struct stage *s = &stages[stage];
    const bool backward = relay == RELAY_TO_BEFORE || relay == RELAY_FROM_NEXT;
    const bool sends = relay == RELAY_TO_NEXT || relay == RELAY_TO_BEFORE;
    const struct action *action = find(s, s->next, backward ? ACTION_BACKWARD : ACTION_FORWARD, sends ? -1 : 1);
    if (!CHECK(action != NULL))
        return (struct message){0};
    const int slice = slice_of(stage, action->chunk), into = sends ? slice + (backward ? -1 : 1) : slice;
    CHECK(into >= 0 && into < stage_slices(&shape));
    return (struct message){backward, action->micro_batch, into};
}

static struct channel *channel_of(int stage, enum relay relay, int *end)
{
    const int next = (stage + 1) % shape.stages, before = (stage + shape.stages - 1) % shape.stages;
    const int peer = relay == RELAY_TO_NEXT || relay == RELAY_FROM_NEXT ? next : before;
    const bool sends = relay == RELAY_TO_NEXT || relay == RELAY_TO_BEFORE;
    struct channel *channel = sends ? &channels[stage][peer] : &channels[peer][stage];
    *end = sends ? channel->sends : channel->receives;
    return channel;
}

static void post(int stage, enum relay relay)
{
    struct channel *channel = channel_of(stage, relay, &stages[stage].ends[relay]);
    const bool sends = relay == RELAY_TO_NEXT || relay == RELAY_TO_BEFORE;
    const int end = sends ? channel->sends++ : channel->receives++;
    (sends ? channel->sent : channel->received)[end] = message_of(stage, relay);
    (sends ? channel->sent_at : channel->received_at)[end] = stages[stage].time;
}

/* Has the other end come? Then both hold the same message, and the time at which they have met counts. */
static bool met(int stage, enum relay relay, int64_t *time)
{
    int next;
    const struct channel *channel = channel_of(stage, relay, &next);
    const int end = stages[stage].ends[relay];
    if (channel->sends <= end || channel->receives <= end)
        return false;
    const struct message *a = &channel->sent[end], *b = &channel->received[end];
    CHECK(a->backward == b->backward && a->micro_batch == b->micro_batch && a->slice == b->slice);
    const int64_t later =
        channel->sent_at[end] > channel->received_at[end] ? channel->sent_at[end] : channel->received_at[end];
    *time = later > *time ? later : *time;
    return true;
}

/* Sends come first where they come one by one, as with a send that returns once it has been received. */
static bool run_relay(int stage, const struct action *action)
{
    static const enum relay order[] = {RELAY_TO_NEXT, RELAY_TO_BEFORE, RELAY_FROM_BEFORE, RELAY_FROM_NEXT};
    struct stage *s = &stages[stage];
    int64_t time = s->time;
    bool over = true;
    for (int i = 0; i < RELAY_COUNT; i++) {
        const enum relay relay = order[i];
        if (!action->relays[relay])
            continue;
        if (s->ends[relay] < 0 && (over || !one_by_one))
            post(stage, relay);
        over &= s->ends[relay] >= 0 && met(stage, relay, &time);
    }
    if (over) {
        s->time = time;
        for (int i = 0; i < RELAY_COUNT; i++)
            s->ends[i] = -1;
    }
    return over;
}

/* Chunks have their micro-batches in order, each once, and a slot of their own from forward to backward. */
static void run_action(int stage, const struct action *a)
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

/* Does any stage come further? */
static bool advance(int stage)
{
    struct stage *s = &stages[stage];
    const int before = s->next;
    while (s->next < s->schedule.count) {
        const struct action *action = &s->schedule.actions[s->next];
        if (action->kind != ACTION_RELAY)
            run_action(stage, action);
        else if (!run_relay(stage, action))
            break;
        s->next++;
    }
    return s->next > before;
}

/* Goes through it; returns whether all stages come to their ends. */
static bool run_all(int64_t *longest)
{
    memset(channels, 0, sizeof channels);
    for (int stage = 0; stage < shape.stages; stage++) {
        struct stage_cut cut = shape;
        cut.stage = stage;
        stages[stage] = (struct stage){.schedule = schedule_pipeline(micro_batches, &cut), .ends = {-1, -1, -1, -1}};
    }
    /* whoever waits may have begun part of a relay, so all are asked until none has come further twice */
    for (int idle = 0; idle < 8;) {
        bool any = false;
        for (int stage = 0; stage < shape.stages; stage++)
            any |= advance(stage);
        idle = any ? 0 : idle + 1;
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
        fprintf(stderr, "    %d stages, %d chunks, %d micro-batches: %s, %lld for %lld\n", shape.stages, shape.chunks,
                micro_batches, over ? "ends" : "hangs", (long long)longest, (long long)ideal);
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
                if (shape.chunks == 1 || micro_batches % shape.stages == 0)
                    check_schedule();
}

/* Sends that wait one after the other hang in both kinds of schedule. */
static void test_one_by_one(void)
{
    int64_t longest;
    one_by_one = true;
    for (int chunks = 1; chunks <= 2; chunks++) {
        shape = (struct stage_cut){.stages = 2, .chunks = chunks};
        micro_batches = 4;
        CHECK(!run_all(&longest));
        destroy_all();
    }
    one_by_one = false;
}

/* -- Layers ------------------------------------------------------------------------------------------------------ */

/* As one number: the digits are the slices' layers. */
static int64_t dealt(int64_t layers, int slices, int deal, int64_t vocabulary)
{
    const struct model_settings settings = {.layers = layers,
                                            .hidden = 64,
                                            .ffn = 128,
                                            .heads = 4,
                                            .kv_heads = 4,
                                            .head_dim = 16, /* a layer has 40960 elements */
                                            .vocabulary = vocabulary,
                                            .cut = {.stages = slices, .chunks = 1, .deal = deal}};
    int counts[MOST_STAGES];
    int64_t all = 0, digits = 0;
    stages_deal(&settings, counts);
    for (int i = 0; i < slices; i++) {
        CHECK(counts[i] >= (deal == DECK_STAGES_LAYERS));
        all += counts[i];
        digits = 10 * digits + counts[i];
    }
    CHECK(all == layers);
    return digits;
}

static void test_layers(void)
{
    CHECK(dealt(8, 4, DECK_STAGES_LAYERS, 64) == 2222);
    CHECK(dealt(10, 4, DECK_STAGES_LAYERS, 64) == 2233); /* stages that come first keep more micro-batches */
    CHECK(dealt(5, 5, DECK_STAGES_ENDS, 64) == 1121);    /* the embedding has the first part for itself */
    CHECK(dealt(14, 4, DECK_STAGES_ENDS, 64) == 3443);
    CHECK(dealt(8, 4, DECK_STAGES_COST, 64) == 2222);       /* the head costs next to nothing */
    CHECK(dealt(8, 4, DECK_STAGES_COST, 640) == 2222);      /* as much as a layer */
    CHECK(dealt(11, 4, DECK_STAGES_COST, 640) == 3332);     /* likewise */
    CHECK(dealt(10, 4, DECK_STAGES_COST, 3 * 640) == 3331); /* as much as three */
    CHECK(dealt(6, 4, DECK_STAGES_COST, 3 * 640) == 2220);  /* the head has a part of its own */
    CHECK(dealt(8, 1, DECK_STAGES_COST, 640) == 8);
    /* Llama 3.1 405B as NVIDIA's benchmark has it: 126 layers and both ends in 64 parts of two */
    struct model_settings settings = {
        .layers = 126, .cut = {.stages = 8, .chunks = 8, .deal = DECK_STAGES_ENDS}, .vocabulary = 128256};
    settings.hidden = settings.ffn = settings.heads = settings.kv_heads = settings.head_dim = 64;
    int counts[64];
    stages_deal(&settings, counts);
    for (int i = 0; i < 64; i++)
        CHECK(counts[i] == (i % 63 == 0 ? 1 : 2));
    settings.layers = 30; /* and its proxy, whose first and last parts have no layer */
    settings.cut = (struct stage_cut){.stages = 4, .chunks = 8, .deal = DECK_STAGES_ENDS};
    CHECK(stages_most_slices(&settings) == 32);
    stages_deal(&settings, counts);
    for (int i = 0; i < 32; i++)
        CHECK(counts[i] == (i % 31 == 0 ? 0 : 1));
}

/* A step of twice as many micro-batches as there are stages has all the slots that a longer one has: engines of long
 * steps are planned by it (train/settings.c). */
static void test_slots(void)
{
    for (int count = 2; count <= MOST_STAGES; count++)
        for (int chunks = 1; chunks <= MOST_CHUNKS; chunks++)
            for (int stage = 0; stage < count; stage++) {
                const struct stage_cut cut = {.stages = count, .stage = stage, .chunks = chunks};
                struct schedule a = schedule_pipeline(2 * count, &cut), b = schedule_pipeline(7 * count, &cut);
                CHECK(memcmp(a.slots, b.slots, sizeof a.slots) == 0);
                schedule_destroy(&a);
                schedule_destroy(&b);
            }
}

int main(void)
{
    test_schedules();
    test_slots();
    test_one_by_one();
    test_layers();
    return check_end();
}
