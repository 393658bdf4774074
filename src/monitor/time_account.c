#include "monitor/time_account.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

const char *time_kind_name(enum time_kind kind)
{
    static const char *const names[TIME_KINDS] = {"steps that count", "lost steps, repeated",    "start-up",
                                                  "validation",       "waiting for checkpoints", "between programs",
                                                  "the rest"};
    return names[kind];
}

static double number(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Adds seconds that a line may not have. */
static void add(double *sum, double seconds)
{
    if (seconds > 0)
        *sum += seconds;
}

static bool is_event(const json_t *line, const char *name)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    return event != NULL && strcmp(event, name) == 0;
}

/* Returns the seconds of the steps of a line "step" from its step `first` on, counted from 0. */
static double step_seconds(const json_t *line, int64_t first)
{
    double sum = 0;
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(line, "step_seconds"), i, value)
    {
        if ((int64_t)i >= first)
            add(&sum, json_is_number(value) ? json_number_value(value) : NAN);
    }
    return sum;
}

struct time_account time_account_create(void)
{
    return (struct time_account){.begun = NAN, .until = NAN};
}

static void add_start(struct time_account *account, const json_t *line)
{
    const double time = number(line, "time"), given = number(line, "begun"), begun = isfinite(given) ? given : time;
    if (account->programs++ == 0)
        account->begun = begun;
    else
        add(&account->seconds[TIME_BETWEEN], begun - account->until);
    add(&account->seconds[TIME_START], time - begun);
}

void time_account_add(struct time_account *account, const json_t *line)
{
    if (is_event(line, "start"))
        add_start(account, line);
    else if (is_event(line, "step"))
        add(&account->seconds[TIME_STEPS], step_seconds(line, 0));
    else if (is_event(line, "validation"))
        add(&account->seconds[TIME_VALIDATION], number(line, "seconds"));
    else if (is_event(line, "checkpoint"))
        add(&account->seconds[TIME_SAVES], number(line, "waited"));
    else if (is_event(line, "lost")) {
        add(&account->seconds[TIME_LOST], number(line, "seconds"));
        add(&account->seconds[TIME_STEPS], number(line, "counted"));
        account->lost_steps += json_integer_value(json_object_get(line, "steps"));
    }
    account->until = fmax(account->until, number(line, "time")); /* fmax(NaN, number) is the number */
}

void time_lost_add(struct time_lost *lost, const json_t *line, int64_t step)
{
    if (is_event(line, "step")) {
        const int64_t last = json_integer_value(json_object_get(line, "step"));
        const int64_t steps = (int64_t)json_array_size(json_object_get(line, "step_seconds"));
        const int64_t counted = step > last - steps ? step - (last - steps) : 0; /* of the line's first steps */
        const double repeated = step_seconds(line, counted);
        lost->steps += steps - counted;
        lost->seconds += repeated;
        lost->counted += step_seconds(line, 0) - repeated;
    } else if (is_event(line, "validation")) {
        add(&lost->seconds, number(line, "seconds"));
    } else if (is_event(line, "checkpoint")) {
        add(&lost->seconds, number(line, "waited"));
    } else if (is_event(line, "lost")) { /* of an earlier start, further ahead */
        lost->steps += json_integer_value(json_object_get(line, "steps"));
        add(&lost->seconds, number(line, "seconds"));
        add(&lost->seconds, number(line, "counted"));
    }
    lost->until = fmax(lost->until, number(line, "time"));
}

double time_account_seconds(const struct time_account *account, enum time_kind kind, double now)
{
    if (kind < TIME_REST)
        return account->seconds[kind];
    double rest = now - account->begun;
    for (int k = 0; k < TIME_REST; k++)
        rest -= account->seconds[k];
    return fmax(rest, 0);
}
