#include "sweep/table.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/hdf5_member.h"
#include "file/atomic_file.h"
#include "file/hdf5_file.h"
#include "file/hdf5_layout.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FORM = 1 };

enum kind { TEXT, INTEGER, REAL };

#define COLUMN(kind, name, member, unit)                                                                               \
    {                                                                                                                  \
        name, unit, kind, offsetof(struct run_outcome, member)                                                         \
    }
static const struct column_writer {
    const char *name, *unit;
    enum kind kind;
    size_t offset;
} columns[] = {
    COLUMN(TEXT, "case", name, ""),
    COLUMN(TEXT, "deck", deck, ""),
    COLUMN(TEXT, "scaling", scaling, ""),
    COLUMN(INTEGER, "series", series, ""),
    COLUMN(INTEGER, "ranks", ranks, ""),
    COLUMN(INTEGER, "nodes", nodes, ""),
    COLUMN(INTEGER, "tensor", tensor, "ranks"),
    COLUMN(INTEGER, "pipeline", pipeline, "ranks"),
    COLUMN(INTEGER, "context", context, "ranks"),
    COLUMN(TEXT, "shard", shard, ""),
    COLUMN(INTEGER, "micro_batch", micro_batch, "rows"),
    COLUMN(INTEGER, "global_batch", global_batch, "rows"),
    COLUMN(TEXT, "compute", compute, ""),
    COLUMN(TEXT, "recipe", recipe, ""),
    COLUMN(TEXT, "varied", varied, ""),
    COLUMN(TEXT, "state", state, ""),
    COLUMN(INTEGER, "exit_code", exit_code, ""),
    COLUMN(TEXT, "message", message, ""),
    COLUMN(INTEGER, "steps", steps, "steps"),
    COLUMN(REAL, "step_tokens", step_tokens, "tokens"),
    COLUMN(REAL, "step_least", step_least, "s"),
    COLUMN(REAL, "step_median", step_median, "s"),
    COLUMN(REAL, "step_most", step_most, "s"),
    COLUMN(REAL, "rate", rate, "tokens/s"),
    COLUMN(REAL, "rank_rate", rank_rate, "tokens/s"),
    COLUMN(REAL, "padded_rate", padded_rate, "tokens/s"),
    COLUMN(REAL, "efficiency", efficiency, "1"),
    COLUMN(REAL, "mfu_causal", utilisation[FLOPS_CAUSAL], "1"),
    COLUMN(REAL, "mfu_full", utilisation[FLOPS_FULL], "1"),
    COLUMN(REAL, "mfu_opengenome2", utilisation[FLOPS_OPENGENOME2], "1"),
    COLUMN(REAL, "data_wait", waited, "1"),
    COLUMN(REAL, "exposed", exposed, "1"),
    COLUMN(REAL, "planned_exposed", planned_exposed, "1"),
    COLUMN(REAL, "planned_step", planned_step, "s"),
    COLUMN(REAL, "planned_memory", planned_memory, "bytes"),
    COLUMN(REAL, "device_memory", device_memory, "bytes"),
    COLUMN(REAL, "planned_host", planned_host, "bytes"),
    COLUMN(REAL, "resident", resident, "bytes"),
    COLUMN(REAL, "loss", loss, "nats"),
    COLUMN(REAL, "validation_loss", validation_loss, "nats"),
    COLUMN(TEXT, "host", host, ""),
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static const void *value_at(const struct run_outcome *outcome, const struct column_writer *column)
{
    return (const char *)outcome + column->offset;
}

/* -- CSV ---------------------------------------------------------------------------------------------------------- */

/* Quotes as in RFC 4180. */
static void write_quoted(FILE *file, const char *text)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void write_value(FILE *file, const struct run_outcome *outcome, const struct column_writer *column)
{
    const void *value = value_at(outcome, column);
    if (column->kind == TEXT)
        write_quoted(file, *(char *const *)value);
    else if (column->kind == INTEGER)
        fprintf(file, "%lld", (long long)*(const int64_t *)value);
    else if (isfinite(*(const double *)value))
        fprintf(file, "%.9g", *(const double *)value);
}

static int save_csv(const char *path, const struct run_outcome *outcomes, int count)
{
    struct atomic_file atomic;
    int code = atomic_file_open(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    for (int i = 0; i < COLUMNS; i++) {
        const bool with_unit = columns[i].unit[0] != '\0' && strcmp(columns[i].unit, "1") != 0;
        fprintf(atomic.file, with_unit ? "%s%s (%s)" : "%s%s", i > 0 ? "," : "", columns[i].name, columns[i].unit);
    }
    fputs("\r\n", atomic.file);
    for (int row = 0; row < count; row++) {
        for (int i = 0; i < COLUMNS; i++) {
            fputs(i > 0 ? "," : "", atomic.file);
            write_value(atomic.file, &outcomes[row], &columns[i]);
        }
        fputs("\r\n", atomic.file);
    }
    return atomic_file_close(&atomic, code);
}

/* -- HDF5 --------------------------------------------------------------------------------------------------------- */

struct table_content {
    const struct table_heading *heading;
    const struct run_outcome *outcomes;
    int count;
};

/* Returns the type of a row. packed: without gaps, in the order of the columns; else as in struct run_outcome. */
static hid_t row_type(hid_t text, bool packed)
{
    size_t bytes = 0;
    const hid_t types[] = {[TEXT] = text, [INTEGER] = H5T_NATIVE_INT64, [REAL] = H5T_NATIVE_DOUBLE};
    for (int i = 0; i < COLUMNS; i++)
        bytes += H5Tget_size(types[columns[i].kind]);
    hid_t row = H5Tcreate(H5T_COMPOUND, packed ? bytes : sizeof(struct run_outcome));
    bytes = 0;
    for (int i = 0; i < COLUMNS; i++) {
        H5Tinsert(row, columns[i].name, packed ? bytes : columns[i].offset, types[columns[i].kind]);
        bytes += H5Tget_size(types[columns[i].kind]);
    }
    return row;
}

static bool describe_columns(hid_t dataset)
{
    bool good = hdf5_write_text(dataset, "CLASS", "TABLE") && hdf5_write_text(dataset, "VERSION", "3.0") &&
                hdf5_write_text(dataset, "TITLE", "cases of a sweep");
    for (int i = 0; i < COLUMNS && good; i++) {
        char *name = memory_format("FIELD_%d_NAME", i), *unit = memory_format("FIELD_%d_UNIT", i);
        good = hdf5_write_text(dataset, name, columns[i].name) && hdf5_write_text(dataset, unit, columns[i].unit);
        free(name);
        free(unit);
    }
    return good;
}

static bool create(hid_t file, void *self)
{
    const struct table_content *content = self;
    const struct table_heading *heading = content->heading;
    const hsize_t extent = (hsize_t)content->count;
    hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, H5T_VARIABLE);
    H5Tset_cset(text, H5T_CSET_UTF8);
    hid_t memory = row_type(text, false), packed = row_type(text, true), space = H5Screate_simple(1, &extent, NULL);
    hid_t dataset = H5Dcreate2(file, "cases", packed, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    bool good = dataset >= 0 && H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, content->outcomes) >= 0 &&
                describe_columns(dataset) && hdf5_write_integer(file, "cistron_sweep", FORM) &&
                hdf5_write_text(file, "version", PACKAGE_VERSION) && hdf5_write_text(file, "list", heading->list) &&
                hdf5_write_text(file, "build", heading->build) && hdf5_write_text(file, "device", heading->device);
    if (dataset >= 0)
        good = H5Dclose(dataset) >= 0 && good;
    H5Sclose(space);
    H5Tclose(packed);
    H5Tclose(memory);
    H5Tclose(text);
    return good;
}

/* Returns an upper bound of the file's size, bytes. */
static int64_t most_bytes(const struct table_content *content)
{
    enum { TEXT_BYTES = 64 /* besides its characters */ };
    int64_t bytes = 4 * HDF5_LAYOUT_FIXED + HDF5_LAYOUT_DATASET;
    for (int row = 0; row < content->count; row++)
        for (int i = 0; i < COLUMNS; i++)
            bytes +=
                TEXT_BYTES + (columns[i].kind != TEXT
                                  ? 0
                                  : (int64_t)strlen(*(char *const *)value_at(&content->outcomes[row], &columns[i])));
    return bytes;
}

static int save_hdf5(const char *path, const struct table_content *content)
{
    struct atomic_file atomic;
    int code = atomic_file_open(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    code = hdf5_layout_write(fileno(atomic.file), path, most_bytes(content), create, (void *)content);
    return atomic_file_close(&atomic, code);
}

int table_save(const char *folder, const struct table_heading *heading, const struct run_outcome *outcomes, int count)
{
    char *csv = memory_format("%s/results.csv", folder), *hdf5 = memory_format("%s/results.h5", folder);
    int code = save_csv(csv, outcomes, count);
    if (code == ERROR_NONE)
        code = save_hdf5(hdf5, &(struct table_content){heading, outcomes, count});
    free(csv);
    free(hdf5);
    return code;
}

/* -- Text --------------------------------------------------------------------------------------------------------- */

static void print_number(int width, int digits, double value)
{
    if (isfinite(value))
        printf(" %*.*f", width, digits, value);
    else
        printf(" %*s", width, "-");
}

void table_print(const struct run_outcome *outcomes, int count)
{
    const double GIB = 1 << 30;
    char **labels = memory_allocate((count + 1) * (int64_t)sizeof *labels);
    int wide = 4;
    for (int row = 0; row < count; row++) {
        labels[row] = outcome_label(&outcomes[row]);
        wide = MAX((int)strlen(labels[row]), wide);
    }
    printf("%-*s %-6s %5s %10s %10s %9s %9s %6s %6s %7s %6s %7s %7s %9s %10s  %s\n", wide, "", "", "", "speed",
           "a rank", "step", "planned", "effic.", "MFU", "exposed", "wait", "planned", "used", "loss", "validation",
           "");
    printf("%-*s %-6s %5s %10s %10s %9s %9s %6s %6s %7s %6s %7s %7s %9s %10s  %s\n", wide, "case", "scale", "ranks",
           "tokens/s", "tokens/s", "s", "s", "%", "%", "%", "%", "GiB", "GiB", "nats", "nats", "folder");
    for (int row = 0; row < count; row++) {
        const struct run_outcome *o = &outcomes[row];
        log_print(stdout, "%-*s", wide, labels[row]);
        printf(" %-6s %5lld", o->scaling, (long long)o->ranks);
        print_number(10, 0, o->rate);
        print_number(10, 0, o->rank_rate);
        print_number(9, 4, o->step_median);
        print_number(9, 4, o->planned_step);
        print_number(6, 1, 100 * o->efficiency);
        print_number(6, 1, 100 * o->utilisation[FLOPS_CAUSAL]);
        print_number(7, 2, 100 * o->exposed);
        print_number(6, 2, 100 * o->waited);
        print_number(7, 2, o->planned_memory / GIB);
        print_number(7, 2, (isfinite(o->device_memory) ? o->device_memory : o->resident) / GIB);
        print_number(9, 4, o->loss);
        print_number(10, 4, o->validation_loss);
        printf("  %s", o->name);
        if (strcmp(o->state, "done") != 0)
            printf(", %s", o->state);
        if (o->message[0] != '\0')
            log_print(stdout, " (%lld): %s", (long long)o->exit_code, o->message);
        printf("\n");
        free(labels[row]);
    }
    memory_free(labels);
}
