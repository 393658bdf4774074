#include "prepare/encoding.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include "data/token_store.h"

#include <stdlib.h>
#include <string.h>

enum { JOB_BYTES = 1 << 18, JOBS_OF_A_THREAD = 3 };

/* A record of a job: its text, and after encoding its ids. */
struct encoding_text {
    char *name;
    int64_t start, bytes; /* range in the job's bytes */
    int64_t first, count; /* in the job's ids: offset in bytes, number of ids */
};

/* The work of a thread at a time: several short records, or a long one. */
struct job {
    struct encoding_text *texts; /* [count]; text_capacity bytes are allocated */
    int64_t count, text_capacity;
    char *bytes; /* [byte_capacity], of which `used` are in use */
    int64_t used, byte_capacity;
    uint8_t *ids; /* [id_capacity] bytes, of which id_bytes are in use */
    int64_t id_bytes, id_capacity;
    bool done;
    int code;
    char *message;
};

struct encoding {
    const struct tokenizer *tokenizer;
    int64_t token_bytes;
    encoding_take *take;
    void *self;
    struct job *jobs; /* [job_count] ring: job n is at n % job_count */
    int64_t job_count;
    int64_t filled, collected; /* jobs given to threads, jobs whose results were read; job `filled` is being filled */
    pthread_t *threads;        /* [thread_count] */
    int64_t thread_count;
    pthread_mutex_t lock; /* guards all members below, `filled`, and `done` of each job */
    struct text_census *census;
    pthread_cond_t changed;
    int64_t started; /* jobs that threads have started */
    bool stop;
};

/* Grows a block to at least `wanted` bytes, and at least to twice its size; the first `kept` bytes stay. */
static void *widen(void *block, int64_t kept, int64_t *capacity, int64_t wanted)
{
    if (wanted <= *capacity)
        return block;
    *capacity = wanted > 2 * *capacity ? wanted : 2 * *capacity;
    return memory_extend(block, kept, *capacity);
}

/* -- Threads ---------------------------------------------------------------------------------------------------- */

/* Appends ids in the format of a store, little-endian. */
static void put_ids(const struct encoding *e, struct job *job, const int32_t *ids, int64_t count)
{
    job->ids = widen(job->ids, job->id_bytes, &job->id_capacity, job->id_bytes + count * e->token_bytes);
    uint8_t *out = job->ids + job->id_bytes;
    for (int64_t i = 0; i < count; i++)
        for (int64_t b = 0; b < e->token_bytes; b++)
            *out++ = (uint8_t)((uint32_t)ids[i] >> (8 * b));
    job->id_bytes += count * e->token_bytes;
}

static void encode(const struct encoding *e, struct encoder *encoder, struct job *job)
{
    job->id_bytes = 0;
    job->code = ERROR_NONE;
    for (int64_t i = 0; i < job->count && job->code == ERROR_NONE; i++) {
        struct encoding_text *text = &job->texts[i];
        const int32_t *ids;
        job->code = encoder_encode(encoder, job->bytes + text->start, text->bytes, false, &ids, &text->count);
        text->first = job->id_bytes;
        if (encoding_of_record(job->code, text->name) == ERROR_NONE)
            put_ids(e, job, ids, text->count);
        else
            job->message = memory_string(error_message());
        error_clear();
    }
}

static void *work(void *self)
{
    struct encoding *e = self;
    struct encoder *encoder = encoder_open(e->tokenizer);
    pthread_mutex_lock(&e->lock);
    while (!e->stop) {
        if (e->started == e->filled) {
            pthread_cond_wait(&e->changed, &e->lock);
            continue;
        }
        struct job *job = &e->jobs[e->started++ % e->job_count];
        pthread_mutex_unlock(&e->lock);
        encode(e, encoder, job);
        pthread_mutex_lock(&e->lock);
        census_take_specials(e->census, encoder);
        job->done = true;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    encoder_close(encoder);
    return NULL;
}

struct encoding *encoding_create(const struct tokenizer *tokenizer, int64_t threads, struct text_census *census,
                                 encoding_take *take, void *self)
{
    struct encoding *e = memory_allocate(sizeof *e);
    e->tokenizer = tokenizer;
    e->token_bytes = token_store_token_bytes(tokenizer->vocabulary);
    e->census = census;
    e->take = take;
    e->self = self;
    e->thread_count = threads;
    e->job_count = JOBS_OF_A_THREAD * threads;
    e->jobs = memory_allocate(e->job_count * (int64_t)sizeof *e->jobs);
    e->threads = memory_allocate(threads * (int64_t)sizeof *e->threads);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    for (int64_t t = 0; t < threads; t++)
        e->threads[t] = thread_start(work, e, "the encoder");
    return e;
}

void encoding_destroy(struct encoding *e)
{
    if (e == NULL)
        return;
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    for (int64_t t = 0; t < e->thread_count; t++)
        pthread_join(e->threads[t], NULL);
    for (int64_t j = 0; j < e->job_count; j++) {
        struct job *job = &e->jobs[j];
        for (int64_t i = 0; i < job->count; i++)
            free(job->texts[i].name);
        memory_free(job->texts);
        memory_free(job->bytes);
        memory_free(job->ids);
        free(job->message);
    }
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    memory_free(e->threads);
    memory_free(e->jobs);
    memory_free(e);
}

/* -- Calling thread --------------------------------------------------------------------------------------------- */

/* Waits for the oldest job, passes its records to `take`, and empties it. */
static int take_job(struct encoding *e)
{
    struct job *job = &e->jobs[e->collected++ % e->job_count];
    pthread_mutex_lock(&e->lock);
    while (!job->done)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    int code = job->code == ERROR_NONE ? ERROR_NONE : error_restate(job->code, job->message);
    for (int64_t i = 0; i < job->count; i++) {
        const struct encoding_text *text = &job->texts[i];
        if (code == ERROR_NONE)
            code = e->take(e->self, text->name, job->ids + text->first, text->count);
        free(text->name);
    }
    job->count = job->used = 0;
    job->done = false;
    return code;
}

static struct job *job_of(const struct encoding *e)
{
    return &e->jobs[e->filled % e->job_count];
}

/* Gives the current job to the threads. If the ring is then full, takes the oldest job. */
static int hand_over(struct encoding *e)
{
    pthread_mutex_lock(&e->lock);
    e->filled++;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return e->filled - e->collected == e->job_count ? take_job(e) : ERROR_NONE;
}

int encoding_name(struct encoding *e, const char *name, int64_t length)
{
    int code = job_of(e)->used >= JOB_BYTES ? hand_over(e) : ERROR_NONE;
    struct job *job = job_of(e);
    job->texts = widen(job->texts, job->count * (int64_t)sizeof *job->texts, &job->text_capacity,
                       (job->count + 1) * (int64_t)sizeof *job->texts);
    job->texts[job->count++] =
        (struct encoding_text){.name = memory_format("%.*s", (int)length, name), .start = job->used};
    return code;
}

int encoding_of_record(int code, const char *name)
{
    if (code == ERROR_NONE)
        return code;
    char *message = memory_format("record %s: %s", text_short((char[TEXT_SHORT]){0}, name), error_message());
    error_clear();
    code = error_restate(code, message);
    free(message);
    return code;
}

int encoding_check_record(const char *name, int64_t bytes)
{
    if (bytes <= ENCODING_RECORD_BYTES)
        return ERROR_NONE;
    return error_user("record %s: has more than %d MiB of text; --input-format lines makes a record of each line",
                      text_short((char[TEXT_SHORT]){0}, name), ENCODING_RECORD_BYTES >> 20);
}

int encoding_text(struct encoding *e, const char *text, int64_t bytes)
{
    struct job *job = job_of(e);
    struct encoding_text *record = &job->texts[job->count - 1];
    int code = encoding_check_record(record->name, record->bytes + bytes);
    if (code != ERROR_NONE)
        return code;
    job->bytes = widen(job->bytes, job->used, &job->byte_capacity, job->used + bytes);
    if (bytes > 0) /* otherwise there may be no array yet */
        memcpy(job->bytes + job->used, text, (size_t)bytes);
    job->used += bytes;
    record->bytes += bytes;
    return ERROR_NONE;
}

int encoding_finish(struct encoding *e)
{
    int code = job_of(e)->count > 0 ? hand_over(e) : ERROR_NONE;
    while (code == ERROR_NONE && e->collected < e->filled)
        code = take_job(e);
    return code;
}
