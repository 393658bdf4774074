#include "loader/store_list.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/path.h"
#include "loader/data_set.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char blanks[] = " \t\n";

/* Returns the first item of a comma-separated list without surrounding blanks, freed with free(). Moves *text to the
 * next item, NULL after the last one. */
static char *take_item(const char **text)
{
    const char *first = *text + strspn(*text, blanks), *comma = path_list_comma(*text);
    const char *stop = comma != NULL ? comma : *text + strlen(*text);
    *text = comma != NULL ? comma + 1 : NULL;
    while (stop > first && strchr(blanks, stop[-1]) != NULL)
        stop--;
    return path_list_item(first, stop > first ? (size_t)(stop - first) : 0);
}

static void add_path(struct store_list *list, const char *path)
{
    list->paths = memory_grow(list->paths, (list->count + 1) * (int64_t)sizeof *list->paths);
    list->paths[list->count++] = memory_string(path);
}

/* Returns the next word of a text, freed with free(); NULL if there is none. Moves *text past it. */
static char *take_word(const char **text)
{
    const char *first = *text + strspn(*text, blanks);
    const size_t length = strcspn(first, blanks);
    *text = first + length;
    return length > 0 ? memory_format("%.*s", (int)length, first) : NULL;
}

static bool is_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return end != text && *end == '\0';
}

static void append_word(char **list, const char *word)
{
    char *longer = memory_format("%s%s%s", *list, **list != '\0' ? ", " : "", word);
    free(*list);
    *list = longer;
}

/* Returns whether the item is a blend in Megatron-LM's syntax, "0.3 A 0.7 B". *words becomes "A, B" and *weights "0.3,
 * 0.7"; both are freed with free(), in any case. */
static bool is_blend(const char *item, char **words, char **weights)
{
    bool is = true;
    int count = 0;
    char *word;
    *words = memory_string("");
    *weights = memory_string("");
    for (const char *rest = item; is && (word = take_word(&rest)) != NULL; count++) {
        is = count % 2 == 1 || is_number(word);
        append_word(count % 2 == 0 ? weights : words, word);
        free(word);
    }
    return is && count > 0 && count % 2 == 0;
}

static int refuse_blend(const char *paths, const char *item)
{
    char *words, *weights;
    int code = is_blend(item, &words, &weights)
                   ? error_user("key data.train = \"%s\": is a blend in Megatron-LM's form; write data.train = \"%s\" "
                                "and data.weights = \"%s\"",
                                paths, words, weights)
                   : ERROR_NONE;
    free(words);
    free(weights);
    return code;
}

/* Returns whether `path` is PREFIX.bin and PREFIX.idx is among the paths: both files are one Megatron data set. */
static bool is_second_file(const char *path, char *const *paths, size_t count)
{
    const char *dot = strrchr(path, '.');
    bool is = false;
    if (dot == NULL || strcmp(dot, ".bin") != 0)
        return false;
    char *index = memory_format("%.*s.idx", (int)(dot - path), path);
    for (size_t i = 0; i < count && !is; i++)
        is = strcmp(paths[i], index) == 0;
    free(index);
    return is;
}

/* Adds an item of the list: a path, or else a pattern that stands for all files that match it, sorted. */
static int add_item(struct store_list *list, const char *paths, const char *item)
{
    glob_t found;
    if (item[0] == '\0')
        return error_user("key data.train = \"%s\": store %d of the list has an empty name", paths, list->count + 1);
    int code = data_set_exists(item) ? ERROR_NONE : refuse_blend(paths, item);
    if (code != ERROR_NONE)
        return code;
    if (strpbrk(item, "*?[") == NULL || access(item, F_OK) == 0) {
        add_path(list, item);
    } else if (glob(item, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (!is_second_file(found.gl_pathv[i], found.gl_pathv, found.gl_pathc))
                add_path(list, found.gl_pathv[i]);
        globfree(&found);
    } else {
        return error_user("key data.train = \"%s\": no file matches %s%s", paths, item, path_seen_from(item));
    }
    if (list->count > BLEND_STORES)
        return error_user("key data.train = \"%s\": more than %d stores; prepare some of them as one", paths,
                          BLEND_STORES);
    return ERROR_NONE;
}

static int parse_paths(struct store_list *list, const char *paths)
{
    int code = ERROR_NONE;
    for (const char *rest = paths; rest != NULL && code == ERROR_NONE;) {
        char *item = take_item(&rest);
        code = add_item(list, paths, item);
        free(item);
    }
    return code;
}

static int parse_weights(struct store_list *list, const char *weights)
{
    int count = 0;
    list->weights = memory_allocate(list->count * (int64_t)sizeof *list->weights);
    for (const char *rest = weights; rest != NULL; count++) {
        char *item = take_item(&rest), *end;
        double weight = strtod(item, &end);
        bool good = end != item && *end == '\0' && isfinite(weight) && weight > 0;
        int code =
            good ? ERROR_NONE : error_user("key data.weights = \"%s\": \"%s\" is not a positive number", weights, item);
        free(item);
        if (code != ERROR_NONE)
            return code;
        if (count < list->count)
            list->weights[count] = weight;
    }
    if (count != list->count)
        return error_user(
            "key data.weights = \"%s\": %d weights for the %d stores of data.train; give one for each, or "
            "\"\"",
            weights, count, list->count);
    list->weighted = true;
    return ERROR_NONE;
}

int store_list_parse(struct store_list *list, const char *paths, const char *weights)
{
    *list = (struct store_list){0};
    if (weights == NULL) {
        add_path(list, paths);
        return ERROR_NONE;
    }
    int code = parse_paths(list, paths);
    if (code == ERROR_NONE && weights[0] != '\0')
        code = parse_weights(list, weights);
    return code;
}

void store_list_destroy(struct store_list *list)
{
    for (int d = 0; d < list->count; d++)
        free(list->paths[d]);
    free(list->paths);
    memory_free(list->weights);
    *list = (struct store_list){0};
}
