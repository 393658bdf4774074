#include "sweep/list.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/path.h"
#include "deck/deck.h"
#include "deck/libconfig_file.h"
#include "deck/locate.h"
#include "setup/settings.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MOST_CASES = 4096 };

const char *const sweep_scaling_names[SWEEP_SCALINGS] = {"none", "weak", "strong"};

/* mpirun on this machine; the environment variable MPIRUN may name another one, as in bench/gpu/step_speed */
static const char usual_launch[] = "${MPIRUN:-mpirun --bind-to none} -n {ranks} {command}";

/* Keys of all cases: no work besides the steps, and a log line for each step. */
static const char *const fixed_keys[] = {"log.every=1",
                                         "log.tensorboard=false",
                                         "checkpoint.at_end=false",
                                         "checkpoint.export_final=false",
                                         "checkpoint.keep_best=false",
                                         "checkpoint.asynchronous=false",
                                         "checkpoint.every=0",
                                         "checkpoint.every_minutes=0",
                                         "train.epochs=0",
                                         "train.resume=never"};
enum { FIXED_KEYS = sizeof fixed_keys / sizeof *fixed_keys };

struct list_reader {
    struct sweep_list *list;
    const char *path;
};

/* -- Settings ----------------------------------------------------------------------------------------------------- */

struct axis {
    char *key, **values;
    int count;
};

struct axes {
    struct axis *axes;
    int count;
};

/* The settings of a group, including those at the top. */
struct settings {
    const config_setting_t *deck, *ranks, *rows; /* one value or several */
    const config_setting_t *launch, *submit, *scaling, *steps, *warm_up, *ranks_per_node, *seconds;
    const config_setting_t *keys[2]; /* at the top, and in the group */
};

/* Records a mistake in a setting. One of several values does not have a name, so its parent's is used. */
static int wrong(const struct list_reader *reader, const config_setting_t *setting, const char *what)
{
    const char *name = config_setting_name(setting);
    return error_user("%s:%d: %s: %s", reader->path, (int)config_setting_source_line(setting),
                      name != NULL ? name : config_setting_name(config_setting_parent(setting)), what);
}

static int take_settings(const struct list_reader *reader, const config_setting_t *group, struct settings *s)
{
    const struct {
        const char *name;
        const config_setting_t **place;
    } known[] = {{"deck", &s->deck},
                 {"ranks", &s->ranks},
                 {"rows", &s->rows},
                 {"launch", &s->launch},
                 {"submit", &s->submit},
                 {"scaling", &s->scaling},
                 {"steps", &s->steps},
                 {"warm_up", &s->warm_up},
                 {"ranks_per_node", &s->ranks_per_node},
                 {"seconds", &s->seconds},
                 {"keys", s->keys[0] == NULL ? &s->keys[0] : &s->keys[1]}};
    const size_t count = sizeof known / sizeof *known;
    for (int i = 0; i < config_setting_length(group); i++) {
        const config_setting_t *setting = config_setting_get_elem(group, (unsigned)i);
        const char *name = config_setting_name(setting);
        size_t k = 0;
        while (k < count && strcmp(name, known[k].name) != 0)
            k++;
        if (k < count)
            *known[k].place = setting;
        else if (!config_setting_is_root(group) || strcmp(name, "sweeps") != 0)
            return wrong(reader, setting,
                         "is not a setting of a sweep; known: deck, ranks, rows, scaling, keys, steps, warm_up, "
                         "seconds, launch, submit, ranks_per_node and, at the top, sweeps");
    }
    return ERROR_NONE;
}

static bool is_several(const config_setting_t *setting)
{
    return config_setting_is_array(setting) || config_setting_is_list(setting);
}

static int value_count(const config_setting_t *setting)
{
    return is_several(setting) ? config_setting_length(setting) : 1;
}

static const config_setting_t *value_of(const config_setting_t *setting, int i)
{
    return is_several(setting) ? config_setting_get_elem(setting, (unsigned)i) : setting;
}

/* Returns a value in the form of an override; NULL: not a number, boolean or text. Freed with free(). */
static char *value_text(const config_setting_t *value)
{
    switch (config_setting_type(value)) {
    case CONFIG_TYPE_BOOL:
        return memory_string(config_setting_get_bool(value) ? "true" : "false");
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        return memory_format("%lld", config_setting_get_int64(value));
    case CONFIG_TYPE_FLOAT:
        return memory_format("%.15g", config_setting_get_float(value));
    case CONFIG_TYPE_STRING:
        return memory_string(config_setting_get_string(value));
    default:
        return NULL;
    }
}

static int read_text(const struct list_reader *reader, const config_setting_t *setting, const char *usual, char **text)
{
    if (setting != NULL && config_setting_type(setting) != CONFIG_TYPE_STRING)
        return wrong(reader, setting, "must be a string in double quotes");
    *text = memory_string(setting != NULL ? config_setting_get_string(setting) : usual);
    return ERROR_NONE;
}

static int read_number(const struct list_reader *reader, const config_setting_t *value, double least, double *number)
{
    if (value == NULL)
        return ERROR_NONE;
    *number = !config_setting_is_number(value)                  ? NAN
              : config_setting_type(value) == CONFIG_TYPE_FLOAT ? config_setting_get_float(value)
                                                                : (double)config_setting_get_int64(value);
    if (*number >= least && *number <= INT_MAX)
        return ERROR_NONE;
    char *what = memory_format("must be a number from %g to %d", least, INT_MAX);
    int code = wrong(reader, value, what);
    free(what);
    return code;
}

static int read_integer(const struct list_reader *reader, const config_setting_t *value, int64_t least,
                        int64_t *integer)
{
    double number = (double)*integer;
    int code = read_number(reader, value, (double)least, &number);
    *integer = code == ERROR_NONE ? (int64_t)number : 0;
    return code == ERROR_NONE && (double)*integer != number ? wrong(reader, value, "must be a whole number") : code;
}

static int read_scaling(const struct list_reader *reader, const config_setting_t *setting, int *scaling)
{
    const char *name = setting == NULL                                      ? "none"
                       : config_setting_type(setting) == CONFIG_TYPE_STRING ? config_setting_get_string(setting)
                                                                            : "";
    for (*scaling = 0; *scaling < SWEEP_SCALINGS; ++*scaling)
        if (strcmp(name, sweep_scaling_names[*scaling]) == 0)
            return ERROR_NONE;
    return wrong(reader, setting, "must be one of \"none\", \"weak\", \"strong\"");
}

static int read_group(const struct list_reader *reader, const struct settings *s, struct sweep_group *group)
{
    *group = (struct sweep_group){.steps = 20, .warm_up = 6, .ranks_per_node = 8, .seconds = 600};
    int code = read_text(reader, s->launch, usual_launch, &group->launch);
    if (code == ERROR_NONE)
        code = read_text(reader, s->submit, "", &group->submit);
    if (code == ERROR_NONE)
        code = read_scaling(reader, s->scaling, &group->scaling);
    if (code == ERROR_NONE)
        code = read_integer(reader, s->steps, 1, &group->steps);
    if (code == ERROR_NONE)
        code = read_integer(reader, s->warm_up, 0, &group->warm_up);
    if (code == ERROR_NONE)
        code = read_integer(reader, s->ranks_per_node, 1, &group->ranks_per_node);
    if (code == ERROR_NONE)
        code = read_number(reader, s->seconds, 1, &group->seconds);
    if (code == ERROR_NONE && strstr(group->launch, "{command}") == NULL)
        code = wrong(reader, s->launch, "must have {command} where the training's command line goes");
    if (code == ERROR_NONE && group->submit[0] != '\0' && strstr(group->submit, "{script}") == NULL)
        code = wrong(reader, s->submit, "must have {script} where the script's path goes");
    if (code == ERROR_NONE && group->scaling != SWEEP_NO_SCALING && s->rows == NULL)
        code = wrong(reader, s->scaling, "needs rows: of a step, on each rank (weak) or on all (strong)");
    if (code == ERROR_NONE && group->scaling == SWEEP_NO_SCALING && s->rows != NULL)
        code = wrong(reader, s->rows, "needs scaling, \"weak\" or \"strong\"; or set train.global_batch in keys");
    return code;
}

/* -- Axes --------------------------------------------------------------------------------------------------------- */

static void axis_empty(struct axis *axis)
{
    for (int i = 0; i < axis->count; i++)
        free(axis->values[i]);
    free(axis->values);
    free(axis->key);
    *axis = (struct axis){NULL};
}

static void axes_destroy(struct axes *axes)
{
    for (int a = 0; a < axes->count; a++)
        axis_empty(&axes->axes[a]);
    free(axes->axes);
}

/* Returns the axis of a key, whose values in the group replace those at the top. */
static struct axis *axes_place(struct axes *axes, const char *key)
{
    for (int a = 0; a < axes->count; a++)
        if (strcmp(axes->axes[a].key, key) == 0) {
            axis_empty(&axes->axes[a]);
            return &axes->axes[a];
        }
    axes->axes = memory_grow(axes->axes, (axes->count + 1) * (int64_t)sizeof *axes->axes);
    return &axes->axes[axes->count++];
}

/* Returns whether the sweep itself sets this key in every case. */
static bool is_fixed(const char *key)
{
    const size_t length = strlen(key);
    for (int i = 0; i < FIXED_KEYS; i++)
        if (strncmp(fixed_keys[i], key, length) == 0 && fixed_keys[i][length] == '=')
            return true;
    return strcmp(key, "train.steps") == 0 || strcmp(key, "output.folder") == 0;
}

static int add_axis(const struct list_reader *reader, struct axes *axes, const config_setting_t *setting,
                    const char *key)
{
    if (is_fixed(key))
        return wrong(reader, setting, "is set by the sweep (train.steps by steps and warm_up)");
    struct axis *axis = axes_place(axes, key);
    *axis = (struct axis){.key = memory_string(key)};
    axis->values = memory_grow(NULL, (value_count(setting) + 1) * (int64_t)sizeof *axis->values);
    for (int i = 0; i < value_count(setting); i++) {
        char *text = value_text(value_of(setting, i));
        if (text == NULL)
            return wrong(reader, setting, "must be a value of the key, or several in [ ]");
        axis->values[axis->count++] = text;
    }
    return axis->count > 0 ? ERROR_NONE : wrong(reader, setting, "has no value");
}

static int add_axes(const struct list_reader *reader, struct axes *axes, const config_setting_t *group,
                    const char *section)
{
    int code = ERROR_NONE;
    for (int i = 0; i < config_setting_length(group) && code == ERROR_NONE; i++) {
        const config_setting_t *setting = config_setting_get_elem(group, (unsigned)i);
        char *key = memory_format("%s%s%s", section, section[0] != '\0' ? "." : "", config_setting_name(setting));
        code = config_setting_is_group(setting) ? add_axes(reader, axes, setting, key)
                                                : add_axis(reader, axes, setting, key);
        free(key);
    }
    return code;
}

/* Refuses `rows` together with the key that it sets. */
static int check_rows(const struct list_reader *reader, const struct settings *s, const struct axes *axes)
{
    for (int a = 0; a < axes->count && s->rows != NULL; a++)
        if (strcmp(axes->axes[a].key, "train.global_batch") == 0)
            return wrong(reader, s->rows, "sets train.global_batch, which is also set in keys");
    return ERROR_NONE;
}

static int read_axes(const struct list_reader *reader, const struct settings *s, struct axes *axes)
{
    int code = ERROR_NONE;
    for (int k = 0; k < 2 && code == ERROR_NONE; k++)
        if (s->keys[k] != NULL)
            code = config_setting_is_group(s->keys[k])
                       ? add_axes(reader, axes, s->keys[k], "")
                       : wrong(reader, s->keys[k], "must be a group, { }, of a deck's sections");
    return code == ERROR_NONE ? check_rows(reader, s, axes) : code;
}

static int64_t combinations(const struct axes *axes)
{
    int64_t count = 1;
    for (int a = 0; a < axes->count && count <= MOST_CASES; a++)
        count *= axes->axes[a].count;
    return count;
}

/* -- Cases -------------------------------------------------------------------------------------------------------- */

/* text: the case then owns it. */
static void add_override(struct sweep_case *c, char *text)
{
    c->overrides = memory_grow(c->overrides, (c->override_count + 1) * (int64_t)sizeof *c->overrides);
    c->overrides[c->override_count++] = text;
}

/* Adds the overrides of combination `number`; the last axis varies fastest. */
static void add_combination(struct sweep_case *c, const struct axes *axes, int64_t number)
{
    char *varied = memory_string("");
    int64_t rest = number, below = combinations(axes);
    for (int a = 0; a < axes->count; a++) {
        const struct axis *axis = &axes->axes[a];
        below /= axis->count;
        char *text = memory_format("%s=%s", axis->key, axis->values[rest / below]);
        rest %= below;
        if (axis->count > 1) {
            char *longer = memory_format("%s%s%s", varied, varied[0] != '\0' ? " " : "", text);
            free(varied);
            varied = longer;
        }
        add_override(c, text);
    }
    c->varied = varied;
}

/* Freed with free(). */
static char *unquoted(const struct deck *deck, const char *key)
{
    char *text = deck_key_text(deck, key);
    char *inside = memory_format("%.*s", (int)strlen(text) - 2, text + 1);
    free(text);
    return inside;
}

static int64_t number(const struct deck *deck, const char *key)
{
    char *text = deck_key_text(deck, key);
    const int64_t value = strtoll(text, NULL, 10);
    free(text);
    return value;
}

/* Returns a name such as "lingua1b-2-0123456789ab", with a hash of everything that determines the computation. */
static char *name_case(const struct sweep_case *c, const struct deck *deck)
{
    char *stem = path_stem(c->deck), *effective = deck_print_effective(deck);
    char *all = memory_format("%s\n%lld %lld\n%s", effective, (long long)c->ranks, (long long)c->ranks_per_node,
                              c->group->launch);
    const unsigned long long hash = XXH3_64bits(all, strlen(all)) & 0xffffffffffff; /* enough for thousands */
    char *name = memory_format("%s-%lld-%012llx", stem, (long long)c->ranks, hash);
    for (char *at = name; *at != '\0'; at++) /* only characters that need no quoting in a shell, for {name} */
        if (!isalnum((unsigned char)*at) && strchr("-_.", *at) == NULL)
            *at = '_';
    free(stem);
    free(effective);
    free(all);
    return name;
}

/* Reads the deck with the case's keys, and copies the values that the table shows. */
static int complete_case(const struct list_reader *reader, struct sweep_case *c, struct deck *deck)
{
    char *notes = NULL;
    int code = deck_read(deck, c->deck, c->overrides, c->override_count, &notes);
    free(notes);
    if (code != ERROR_NONE) {
        char *what = memory_format("%s: a case of %s; its keys are the command line: %s", reader->path, c->deck,
                                   error_message());
        error_clear();
        code = error_restate(code, what);
        free(what);
        return code;
    }
    c->tensor = number(deck, "parallel.tensor");
    c->pipeline = number(deck, "parallel.pipeline");
    c->context = number(deck, "parallel.context");
    c->micro_batch = number(deck, "train.micro_batch");
    c->global_batch = number(deck, "train.global_batch");
    c->shard = unquoted(deck, "parallel.shard");
    c->compute = unquoted(deck, "precision.compute");
    c->recipe = unquoted(deck, "precision.recipe");
    c->name = name_case(c, deck);
    if (settings_check(deck, c->ranks) == ERROR_NONE)
        return ERROR_NONE;
    c->refusal = memory_string(error_message());
    error_clear();
    return ERROR_NONE;
}

static int add_rows(const struct list_reader *reader, struct sweep_case *c, const config_setting_t *value)
{
    double rows = 0;
    int code = read_number(reader, value, 1e-9, &rows);
    if (code != ERROR_NONE || value == NULL)
        return code;
    const double all = c->group->scaling == SWEEP_WEAK ? rows * (double)c->ranks : rows;
    if (all != floor(all) || all < 1) {
        char *what = memory_format("%g makes %g rows of a step on %lld ranks; must be a whole number, 1 or more", rows,
                                   all, (long long)c->ranks);
        code = wrong(reader, value, what);
        free(what);
        return code;
    }
    add_override(c, memory_format("train.global_batch=%.0f", all));
    return ERROR_NONE;
}

/* deck: scratch. */
static int add_case(const struct list_reader *reader, const struct sweep_group *group, const struct settings *s,
                    const struct axes *axes, const int place[4], struct deck *deck)
{
    struct sweep_list *list = reader->list;
    if (list->case_count == MOST_CASES)
        return error_user("%s: has more than %d cases", reader->path, MOST_CASES);
    list->cases = memory_grow(list->cases, (list->case_count + 1) * (int64_t)sizeof *list->cases);
    struct sweep_case *c = &list->cases[list->case_count++];
    *c = (struct sweep_case){.group = group, .ranks = 1, .series = list->series_count};
    const config_setting_t *name = value_of(s->deck, place[0]);
    if (config_setting_type(name) != CONFIG_TYPE_STRING)
        return wrong(reader, s->deck, "must be a deck's name in double quotes, or several in [ ]");
    c->deck = deck_locate(reader->path, config_setting_get_string(name));
    int code = read_integer(reader, s->ranks != NULL ? value_of(s->ranks, place[3]) : NULL, 1, &c->ranks);
    if (code != ERROR_NONE)
        return code;
    c->ranks_per_node = MIN(c->ranks, group->ranks_per_node);
    c->nodes = (c->ranks + c->ranks_per_node - 1) / c->ranks_per_node;
    add_combination(c, axes, place[2]);
    code = add_rows(reader, c, s->rows != NULL ? value_of(s->rows, place[1]) : NULL);
    for (int i = 0; i < FIXED_KEYS; i++)
        add_override(c, memory_string(fixed_keys[i]));
    add_override(c, memory_format("train.steps=%lld", (long long)(group->warm_up + group->steps)));
    return code == ERROR_NONE ? complete_case(reader, c, deck) : code;
}

/* Adds the cases decks x rows x keys x ranks; cases that differ only in ranks are consecutive. */
static int add_cases(const struct list_reader *reader, const struct sweep_group *group, const struct settings *s,
                     const struct axes *axes, struct deck *deck)
{
    int code = ERROR_NONE, place[4];
    const int rows = s->rows != NULL ? value_count(s->rows) : 1, ranks = s->ranks != NULL ? value_count(s->ranks) : 1;
    const int64_t many = combinations(axes);
    if (many > MOST_CASES)
        return error_user("%s: has more than %d cases", reader->path, MOST_CASES);
    for (place[0] = 0; place[0] < value_count(s->deck); place[0]++)
        for (place[1] = 0; place[1] < rows; place[1]++)
            for (place[2] = 0; place[2] < many; place[2]++, reader->list->series_count++)
                for (place[3] = 0; place[3] < ranks && code == ERROR_NONE; place[3]++)
                    code = add_case(reader, group, s, axes, place, deck);
    return code;
}

/* Adds a group. top: settings of the file; from: those of the group, NULL if the file is one group. */
static int add_group(const struct list_reader *reader, const struct settings *top, const config_setting_t *from,
                     struct sweep_group *group)
{
    struct settings s = *top;
    struct axes axes = {NULL, 0};
    int code = ERROR_NONE;
    if (from != NULL)
        code = config_setting_is_group(from) ? take_settings(reader, from, &s)
                                             : wrong(reader, from, "must be a list of groups, ( { }, { } )");
    if (code == ERROR_NONE && s.deck == NULL)
        code = error_user("%s:%d: deck: is missing", reader->path,
                          from != NULL ? (int)config_setting_source_line(from) : 1);
    if (code == ERROR_NONE)
        code = read_group(reader, &s, group);
    if (code == ERROR_NONE)
        code = read_axes(reader, &s, &axes);
    if (code == ERROR_NONE) {
        struct deck *deck = deck_create();
        code = add_cases(reader, group, &s, &axes, deck);
        memory_free(deck);
    }
    axes_destroy(&axes);
    return code;
}

static int read_root(const struct list_reader *reader, const config_setting_t *root)
{
    struct settings top = {NULL};
    const config_setting_t *sweeps = config_setting_get_member(root, "sweeps");
    int code = take_settings(reader, root, &top);
    if (code == ERROR_NONE && sweeps != NULL && !is_several(sweeps))
        code = wrong(reader, sweeps, "must be a list of groups, ( { }, { } )");
    if (code != ERROR_NONE)
        return code;
    const int count = sweeps != NULL ? config_setting_length(sweeps) : 1;
    reader->list->groups = memory_allocate((count + 1) * (int64_t)sizeof *reader->list->groups);
    for (int g = 0; g < count && code == ERROR_NONE; g++)
        code = add_group(reader, &top, sweeps != NULL ? config_setting_get_elem(sweeps, (unsigned)g) : NULL,
                         &reader->list->groups[reader->list->group_count++]);
    return code == ERROR_NONE && reader->list->case_count == 0 ? error_user("%s: has no case", reader->path) : code;
}

int sweep_list_read(struct sweep_list *list, const char *path)
{
    *list = (struct sweep_list){NULL};
    const struct list_reader reader = {list, path};
    config_t config;
    int code = libconfig_file_read(&config, path, "not a sweep list");
    if (code != ERROR_NONE)
        return code;
    code = read_root(&reader, config_root_setting(&config));
    config_destroy(&config);
    return code;
}

void sweep_list_destroy(struct sweep_list *list)
{
    for (struct sweep_case *c = list->cases; c < list->cases + list->case_count; c++) {
        char *const texts[] = {c->name, c->deck, c->varied, c->refusal, c->shard, c->compute, c->recipe};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            free(texts[i]);
        for (int i = 0; i < c->override_count; i++)
            free(c->overrides[i]);
        free(c->overrides);
    }
    for (struct sweep_group *g = list->groups; g < list->groups + list->group_count; g++) {
        free(g->launch);
        free(g->submit);
    }
    free(list->cases);
    memory_free(list->groups);
}
