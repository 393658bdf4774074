/* Megatron data sets give the orders, rows, blends and sizes of megatron-core 0.16 (tests/golden/make_megatron.py),
 * also over a restart on two ranks; written again they have the same bytes. Damaged indexes and settings are refused.
 *
 * The folder of the goldens may be the argument. */
#include "loader/blend.h"
#include "loader/loader.h"
#include "loader/megatron_blend.h"
#include "data/megatron_order.h"
#include "data/numpy_random.h"
#include "data_files.h"
#include "prepare/megatron_writer.h"
#include "records.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

enum { TEXT = 200, VOCABULARY = 1 << 22 };

static struct comm *world;

static uint32_t crc(uint32_t before, const void *data, int64_t bytes)
{
    return (uint32_t)crc32_z(before, data, (size_t)bytes);
}

/* "-" stands for an empty text. */
static void read_empty(char text[TEXT])
{
    if (strcmp(text, "-") == 0)
        text[0] = '\0';
}

static void check_order(const char *folder, const char *line)
{
    char set[TEXT], parts[TEXT], path[2 * TEXT];
    int use;
    long long samples, length;
    unsigned seed, hashes[3];
    CHECK(sscanf(line, "order %199s %199s %d %lld %lld %u %x %x %x", set, parts, &use, &samples, &length, &seed,
                 &hashes[0], &hashes[1], &hashes[2]) == 9);
    read_empty(parts);
    snprintf(path, sizeof path, "%s/%s", folder, set);
    struct megatron_store *store;
    struct megatron_part part;
    struct megatron_order order = {0};
    CHECK(megatron_store_open(&store, path) == ERROR_NONE);
    CHECK(megatron_part_choose(&part, store, parts, (enum megatron_use)use) == ERROR_NONE);
    CHECK(megatron_order_create(&order, store, &part, samples, length, seed) == ERROR_NONE);
    const int64_t sequences = order.epochs * part.count;
    const bool same = crc(0, order.sequences, sequences * (int64_t)sizeof *order.sequences) == hashes[0] &&
                      crc(0, order.begins, (order.samples + 1) * (int64_t)sizeof *order.begins) == hashes[1] &&
                      crc(0, order.shuffle, order.samples * (int64_t)sizeof *order.shuffle) == hashes[2];
    if (!CHECK(same))
        fprintf(stderr, "    %s", line);
    megatron_order_destroy(&order);
    megatron_store_close(store);
}

/* The paths of sets with commas between. */
static void join_paths(char paths[4 * TEXT], const char *folder, char *sets)
{
    paths[0] = '\0';
    for (char *set = strtok(sets, ","); set != NULL; set = strtok(NULL, ","))
        snprintf(paths + strlen(paths), 4 * TEXT - strlen(paths), "%s%s/%s", paths[0] != '\0' ? "," : "", folder, set);
}

/* Rows are assigned as Megatron's sampler does: of each micro-batch times ranks, rank r has the r-th run of a
 * micro-batch. */
static uint32_t hash_step(struct loader *const *loaders, int ranks, const struct loader_settings *settings,
                          uint32_t hash)
{
    const struct batch *batches[2];
    const int64_t each = settings->row_tokens, bytes = each * (int64_t)sizeof(int32_t);
    for (int r = 0; r < ranks; r++)
        batches[r] = loader_next(loaders[r]);
    for (int64_t row = 0; row < settings->global_rows; row++) {
        const int64_t k = row / settings->micro_rows, at = row % settings->micro_rows * each;
        const struct batch *batch = &batches[k % ranks][k / ranks];
        hash = crc(hash, batch->tokens + at, bytes);
        hash = crc(hash, batch->labels + at, bytes);
    }
    return hash;
}

static struct loader_settings rows_settings(const char *paths, const char *weights)
{
    return (struct loader_settings){.stores = paths,
                                    .weights = weights,
                                    .max_segments = 4,
                                    .micro_rows = 1,
                                    .balance = true,
                                    .split = true,
                                    .shuffle = true,
                                    .megatron = {.tokenizer = "", .vocabulary = VOCABULARY, .parts = ""}};
}

/* On one rank, and on two that another run with one stops after two steps for. */
static void check_rows(const char *folder, const char *line)
{
    char sets[TEXT], weights[TEXT], parts[TEXT], paths[4 * TEXT];
    unsigned seed, wanted, got = 0;
    long long length, batch, steps;
    CHECK(sscanf(line, "rows %199s %199s %199s %u %lld %lld %lld %x", sets, weights, parts, &seed, &length, &batch,
                 &steps, &wanted) == 8);
    read_empty(weights);
    read_empty(parts);
    join_paths(paths, folder, sets);
    struct loader_settings settings = rows_settings(paths, weights);
    settings.row_tokens = settings.window = length;
    settings.global_rows = batch;
    settings.seed = seed;
    settings.megatron.seed = seed;
    settings.megatron.parts = parts;
    settings.megatron.ordered = true;
    settings.megatron.samples = batch * steps;
    struct loader *one, *two[2];
    CHECK(loader_create(&one, &settings, world, 0, 1) == ERROR_NONE);
    for (int r = 0; r < 2; r++)
        CHECK(loader_create(&two[r], &settings, world, r, 2) == ERROR_NONE);
    for (int step = 0; step < 2; step++)
        got = hash_step(&one, 1, &settings, got);
    struct blend_position position = loader_position(one);
    for (int r = 0; r < 2; r++)
        loader_seek(two[r], &position, 2);
    for (int step = 2; step < steps; step++)
        got = hash_step(two, 2, &settings, got);
    if (!CHECK(got == wanted))
        fprintf(stderr, "    %s", line);
    blend_position_destroy(&position);
    loader_destroy(one);
    for (int r = 0; r < 2; r++)
        loader_destroy(two[r]);
}

static void locate_nothing(void *self, const int64_t *w, int64_t count, struct token_window *windows)
{
    (void)self;
    for (int64_t i = 0; i < count; i++)
        windows[i] = (struct token_window){.number = w[i]};
}

static void check_blend(const char *line)
{
    enum { MOST = 400 };
    static const struct window_source_class class = {locate_nothing, NULL};
    static const struct window_source source = {.class = &class, .windows = 1 << 20};
    const struct window_source *sources[MOST];
    double weights[MOST];
    long long size;
    int count = 0, used, store;
    unsigned wanted[3], got[3] = {0};
    CHECK(sscanf(line, "blend %lld %n", &size, &used) == 1);
    const char *rest = line + used;
    char *end;
    do {
        weights[count] = strtod(rest, &end);
        sources[count++] = &source;
        rest = end + 1;
    } while (*end == ',' && count < MOST);
    CHECK(sscanf(rest, "%x %x %x", &wanted[0], &wanted[1], &wanted[2]) == 3);
    megatron_blend_normalise(weights, count);
    const struct blend_settings settings = {.megatron = true};
    struct data_blend blend = blend_create(&settings, sources, weights, count);
    for (int64_t i = 0; i < size; i++) {
        const struct token_window window = blend_window(&blend, &store);
        got[1] = crc(got[1], &(int16_t){(int16_t)store}, sizeof(int16_t));
        got[2] = crc(got[2], &window.number, sizeof window.number);
        blend_advance(&blend, store);
    }
    for (int d = 0; d < count; d++)
        got[0] = crc(got[0], &blend.store[d].share, sizeof blend.store[d].share);
    if (!CHECK(memcmp(got, wanted, sizeof got) == 0))
        fprintf(stderr, "    of %d data sets\n", count);
    blend_destroy(&blend);
}

static void check_size(const char *line)
{
    double share;
    long long samples, size;
    CHECK(sscanf(line, "size %lf %lld %lld", &share, &samples, &size) == 3);
    CHECK(megatron_blend_samples(share, samples) == size);
}

static void check_expected(const char *folder)
{
    char path[2 * TEXT], line[1 << 14];
    int lines = 0;
    snprintf(path, sizeof path, "%s/expected.txt", folder);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        lines++;
        if (strncmp(line, "order ", 6) == 0)
            check_order(folder, line);
        else if (strncmp(line, "rows ", 5) == 0)
            check_rows(folder, line);
        else if (strncmp(line, "size ", 5) == 0)
            check_size(line);
        else
            check_blend(line);
    }
    CHECK(lines > 30);
    if (file != NULL)
        fclose(file);
}

/* -- Own order, parts, hostile files ------------------------------------------------------------------------------ */

/* NumPy's own figures: RandomState(0) and (42) of 10, and what follows in the stream of 1234. */
static void test_shuffle(void)
{
    static const uint32_t wanted[2][10] = {{2, 8, 4, 9, 1, 6, 7, 3, 0, 5}, {8, 1, 5, 0, 7, 2, 9, 4, 3, 6}};
    uint32_t items[16];
    for (int i = 0; i < 2; i++) {
        struct numpy_random random = numpy_random_create(i == 0 ? 0 : 42);
        for (uint32_t k = 0; k < 10; k++)
            items[k] = k;
        numpy_random_shuffle(&random, items, 10);
        CHECK(memcmp(items, wanted[i], sizeof wanted[i]) == 0);
    }
    struct numpy_random random = numpy_random_create(1234);
    numpy_random_shuffle(&random, items, 16);
    numpy_random_shuffle(&random, items, 16);
    numpy_random_shuffle(&random, items, 1); /* draws nothing */
    CHECK(numpy_random_bits(&random) == 1248669606u && numpy_random_bits(&random) == 3790915066u);
}

struct file {
    unsigned char *bytes;
    int64_t count;
};

static struct file read_whole(const char *path)
{
    struct file file = {memory_grow(NULL, 1 << 16), 0};
    FILE *stream = fopen(path, "rb");
    file.count = stream != NULL ? (int64_t)fread(file.bytes, 1, 1 << 16, stream) : 0;
    if (stream != NULL)
        fclose(stream);
    return file;
}

/* A copy of set `stone` in the scratch folder, of whose index `bytes` bytes are others. */
static void write_set(const struct file *index, const struct file *bin, int64_t at, const void *other, int64_t bytes)
{
    unsigned char *copy = memory_grow(NULL, index->count);
    memcpy(copy, index->bytes, (size_t)index->count);
    memcpy(copy + at, other, (size_t)bytes);
    write_file(stores_path("set.idx"), "wb", copy, (size_t)index->count);
    write_file(stores_path("set.bin"), "wb", bin->bytes, (size_t)bin->count);
    free(copy);
}

static bool same_files(const char *one, const char *other)
{
    const struct file a = read_whole(one), b = read_whole(other);
    const bool same = a.count > 0 && a.count == b.count && memcmp(a.bytes, b.bytes, (size_t)a.count) == 0;
    free(a.bytes);
    free(b.bytes);
    return same;
}

/* A set that megatron-core wrote is written again, to the same bytes; tokens come as prepare has them. */
static void check_written(const char *folder, const char *set, int64_t vocabulary)
{
    static const char *const endings[] = {"idx", "bin"};
    const struct tokenizer tokenizer = {.vocabulary = vocabulary, .eos = 0};
    char path[2 * TEXT];
    struct megatron_store *store;
    struct store_writer *writer;
    uint64_t checksum;
    snprintf(path, sizeof path, "%s/%s", folder, set);
    CHECK(megatron_store_open(&store, path) == ERROR_NONE);
    CHECK(megatron_writer_create(&writer, stores_path("again"), &tokenizer, false, store->sequences,
                                 store->token_count) == ERROR_NONE);
    int32_t *ids = memory_allocate(store->token_count * 4);
    megatron_store_read(store, 0, store->token_count, vocabulary, ids);
    for (int64_t i = 0; i < store->sequences; i++) {
        const int64_t count = megatron_store_length(store, i), start = megatron_store_start(store, i);
        uint16_t *narrow = memory_allocate(count * 2);
        for (int64_t t = 0; t < count; t++)
            narrow[t] = (uint16_t)ids[start + t];
        CHECK(writer->class->append(writer, vocabulary > 1 << 16 ? (void *)(ids + start) : (void *)narrow, count) ==
                  ERROR_NONE &&
              writer->class->end(writer, "name") == ERROR_NONE);
        memory_free(narrow);
    }
    CHECK(writer->class->finish(writer, NULL, 0, &checksum) == ERROR_NONE);
    CHECK(writer->class->commit(writer) == ERROR_NONE);
    writer->class->destroy(writer);
    for (int i = 0; i < 2; i++) {
        char again[2 * TEXT];
        snprintf(path, sizeof path, "%s/%s.%s", folder, set, endings[i]);
        snprintf(again, sizeof again, "%s.%s", stores_path("again"), endings[i]);
        CHECK(same_files(path, again));
    }
    memory_free(ids);
    megatron_store_close(store);
}

static void test_prepare(void)
{
    static const char text[] = ">a\nACGTN\n>empty\n>b\nGG\n";
    static const uint16_t plain[] = {'A', 'C', 'G', 'T', 'N', 'G', 'G'},
                          ended[] = {'A', 'C', 'G', 'T', 'N', 0, 'G', 'G', 0};
    const char *input = stores_path("p.fa"), *output = stores_path("p");
    write_file(input, "wb", text, strlen(text));
    const int before = files_in_folder();
    for (int eod = 0; eod < 2; eod++) {
        CHECK(records_prepare("megatron", eod, output, NULL, input) == ERROR_NONE);
        CHECK(files_in_folder() == before + 2);
        const struct file bin = read_whole(stores_path("p.bin"));
        CHECK(bin.count == (int64_t)(eod ? sizeof ended : sizeof plain));
        CHECK(memcmp(bin.bytes, eod ? ended : plain, (size_t)bin.count) == 0);
        free(bin.bytes);
        struct megatron_store *store;
        CHECK(megatron_store_open(&store, output) == ERROR_NONE);
        CHECK(store->type == MEGATRON_U16 && store->sequences == 2 && store->documents == 2);
        CHECK(megatron_store_length(store, 0) == 5 + eod && megatron_store_start(store, 1) == 5 + eod);
        megatron_store_close(store);
    }
    CHECK(records_prepare("megatron", false, stores_path("q"), "train:0.8,valid:0.2", input) == ERROR_NONE);
    CHECK(access(stores_path("q.train.idx"), F_OK) == 0 && access(stores_path("q.valid.bin"), F_OK) == 0);
    const int all = files_in_folder();
    CHECK_USER(records_prepare("hdf5", false, output, NULL, input), "--format hdf5: must be store or megatron");
    CHECK_USER(records_prepare("store", true, output, NULL, input), "--append-eod: needs --format megatron");
    CHECK(rename(input, stores_path("p.bin")) == 0);
    CHECK_USER(records_prepare("megatron", false, output, NULL, stores_path("p.bin")), "is an input and the output");
    CHECK(files_in_folder() == all - 1);

    /* a run that fails leaves nothing new, and the old set alone */
    const struct tokenizer none = {.vocabulary = 256, .eos = -1};
    struct store_writer *writer;
    CHECK_USER(megatron_writer_create(&writer, stores_path("q.train"), &none, true, 1, 1), "has no end token");
    CHECK(megatron_writer_create(&writer, stores_path("q.train"), &none, false, 1, 1) == ERROR_NONE);
    writer->class->destroy(writer);
    CHECK(files_in_folder() == all - 1 && access(stores_path("q.train.idx"), F_OK) == 0);
}

static void test_refusals(const char *folder)
{
    enum { SEQUENCES = 60, DOCUMENTS = 20, STARTS = MEGATRON_HEADER + 4 * SEQUENCES, TABLE = STARTS + 8 * SEQUENCES };
    char path[2 * TEXT];
    snprintf(path, sizeof path, "%s/stone.idx", folder);
    const struct file index = read_whole(path);
    snprintf(path, sizeof path, "%s/stone.bin", folder);
    const struct file bin = read_whole(path);
    const char *set = stores_path("set");
    struct megatron_store *store;
    int64_t huge = INT64_MAX / 8, few = 59, one = 1, negative = -1;
    int32_t longer = 1 << 30, below = -5;
    const struct {
        int64_t at;
        const void *other;
        int64_t bytes;
        const char *words;
    } faults[] = {
        {0, "NMIDIDX", 7, "does not begin with MMIDIDX"},
        {9, "\2", 1, "its version is not 1"},
        {17, "\0", 1, "its type is not an integer type"},
        {17, "\6", 1, "its type is not an integer type"},
        {17, "\7", 1, "its type is not an integer type"},
        {17, "\t", 1, "its type is not an integer type"},
        {17, "\4", 1, "sequence 1 has"},
        {18, &huge, 8, "shorter than its tables"},
        {18, &negative, 8, "has no sequence"},
        {26, &huge, 8, "shorter than its tables"},
        {26, "\0", 1, "has no sequence, or no table of documents"},
        {18, &few, 8, "is damaged: sequence 0 has"},
        {MEGATRON_HEADER, &longer, 4, "is damaged: sequence 0 has 1073741824 tokens"},
        {MEGATRON_HEADER + 8, &below, 4, "is damaged: sequence 2 has -5 tokens"},
        {STARTS + 8, &one, 8, "is damaged: sequence 1 has"},
        {STARTS, &one, 8, "is damaged: sequence 0 has"},
        {TABLE, &one, 8, "is damaged: document 0 begins with sequence 1"},
        {TABLE + 8 * DOCUMENTS, &few, 8, "is damaged: document 20 begins with sequence 59"},
        {TABLE + 16, &negative, 8, "is damaged: document 2 begins with sequence -1"},
        {TABLE + 16, &one, 8, "is damaged: document 2 begins with sequence 1"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        write_set(&index, &bin, faults[i].at, faults[i].other, faults[i].bytes);
        CHECK_USER(megatron_store_open(&store, set), faults[i].words);
    }
    write_set(&index, &bin, 0, "M", 1);
    CHECK(megatron_store_open(&store, stores_path("set.bin")) == ERROR_NONE);
    CHECK(store->sequences == SEQUENCES && store->documents == DOCUMENTS && store->token_count == bin.count / 2);
    megatron_store_close(store);
    for (int64_t bytes = 0; bytes < index.count; bytes += 7) {
        write_file(stores_path("set.idx"), "wb", index.bytes, (size_t)bytes);
        CHECK_USER(megatron_store_open(&store, set), "set.idx: is not a");
    }
    write_set(&index, &bin, 0, "M", 1);
    write_file(stores_path("set.bin"), "ab", "ab", 2);
    CHECK_USER(megatron_store_open(&store, set), "set.bin: has 2784 bytes, but the sequences of");
    write_file(stores_path("set.bin"), "wb", bin.bytes, (size_t)bin.count - 2);
    CHECK_USER(megatron_store_open(&store, set), "is damaged: sequence 59 has");
    CHECK(remove(stores_path("set.bin")) == 0);
    CHECK_USER(megatron_store_open(&store, set), "cannot open the token file of a Megatron data set");
    CHECK(remove(stores_path("set.idx")) == 0); /* as when its folder goes away under a run that looks again */
    CHECK_USER(megatron_store_open(&store, stores_path("set")), "set: is not a Megatron data set");
    CHECK(megatron_prefix(stores_path("none")) == NULL && megatron_prefix(".bin") == NULL);
    free(index.bytes);
    free(bin.bytes);
}

static void test_parts(const char *folder)
{
    static const char *const wrong[] = {"a", "1,,2", "1,-1", "0,0,0", "1,2,3,4", "1,", "inf", "nan", ",1"};
    char path[2 * TEXT];
    struct megatron_store *store;
    struct megatron_part part;
    snprintf(path, sizeof path, "%s/wood.idx", folder);
    CHECK(megatron_store_open(&store, path) == ERROR_NONE && store->sequences == 41);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_USER(megatron_part_choose(&part, store, wrong[i], MEGATRON_TRAIN),
                   "must be up to 3 non-negative numbers");
    CHECK_USER(megatron_part_choose(&part, store, "99", MEGATRON_VALID), "leaves no token of the 41 sequences");
    CHECK(megatron_part_choose(&part, store, "", MEGATRON_TEST) == ERROR_NONE && part.count == 41);
    CHECK(megatron_part_choose(&part, store, "1,1", MEGATRON_TRAIN) == ERROR_NONE); /* 20.5: to the even number */
    CHECK(part.first == 0 && part.count == 20 && part.tokens == megatron_store_start(store, 20));
    CHECK(megatron_part_choose(&part, store, "1,1", MEGATRON_VALID) == ERROR_NONE);
    CHECK(part.first == 20 && part.count == 21 && part.start + part.tokens == store->token_count);
    megatron_store_close(store);
}

/* In the order of the file: an epoch has each token of the part once as an input, and its label is the one behind. */
static void test_own_order(const char *folder)
{
    enum { ROW = 32, ROWS = 4 };
    char path[2 * TEXT];
    snprintf(path, sizeof path, "%s/stone", folder);
    struct loader_settings settings = rows_settings(path, NULL);
    int64_t epoch = 0;
    settings.row_tokens = settings.window = ROW;
    settings.global_rows = ROWS;
    settings.megatron.parts = "50,50";
    settings.megatron.use = MEGATRON_VALID;
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        struct loader *loader;
        int64_t wrong = 0, seen[1400] = {0}, least = 1400;
        settings.shuffle = shuffled;
        CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_NONE);
        const int64_t windows = epoch = loader_windows(loader);
        CHECK(loader_window_tokens(loader) == windows * ROW && windows > ROWS);
        for (int64_t row = 0; row < windows; row++) {
            static const struct batch *batches;
            batches = row % ROWS == 0 ? loader_next(loader) : batches;
            const struct batch *batch = &batches[row % ROWS];
            const int32_t first = batch->tokens[0];
            least = first < least ? first : least;
            wrong += row > 0 && !shuffled && first != least + row * ROW;
            wrong += batch->segment_length[0] != ROW || batch->segment_length[1] != 0;
            for (int t = 0; t < ROW; t++) {
                wrong += batch->tokens[t] != first + t || batch->labels[t] != first + t + 1 || batch->positions[t] != t;
                seen[batch->tokens[t]]++;
            }
        }
        for (int64_t t = least; t < least + windows * ROW; t++)
            wrong += seen[t] != 1;
        CHECK(wrong == 0);
        loader_destroy(loader);
    }
    struct loader *loader;
    snprintf(path, sizeof path, "%s/stone.*", folder); /* both of its files: one data set */
    settings.weights = "";
    CHECK(loader_create(&loader, &settings, world, 0, 1) == ERROR_NONE);
    CHECK(loader_windows(loader) == epoch);
    loader_destroy(loader);
}

/* The message is read where comm_agree prints it. */
static void refuse(const struct loader_settings *settings, const char *words)
{
    struct loader *loader;
    char said[1000];
    const int standard = dup(STDERR_FILENO), file = open(stores_path("said"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(file, STDERR_FILENO);
    const int code = loader_create(&loader, settings, world, 0, 1);
    dup2(standard, STDERR_FILENO);
    const ssize_t count = pread(file, said, sizeof said - 1, 0);
    said[count > 0 ? count : 0] = '\0';
    if (!CHECK(code == ERROR_USER && strstr(said, words) != NULL))
        fprintf(stderr, "    %s    %s\n", said, words);
    close(standard);
    close(file);
}

static void test_settings(const char *folder)
{
    char path[2 * TEXT], two[5 * TEXT], store[2 * TEXT];
    snprintf(path, sizeof path, "%s/wood", folder);
    snprintf(store, sizeof store, "%s", stores_path("genes.h5"));
    snprintf(two, sizeof two, "%s, %s", path, store);
    stores_write_periodic(store);
    struct loader_settings settings = rows_settings(path, ""), other;
    settings.row_tokens = settings.window = 32;
    settings.global_rows = 4;
    other = settings;
    other.overlap = 3;
    refuse(&other, "key data.overlap: applies to token stores only");
    other = settings;
    other.truncate = true;
    refuse(&other, "key data.truncate: applies to token stores only");
    other = settings;
    other.megatron.vocabulary = 0;
    refuse(&other, "set model.vocabulary or data.tokenizer");
    other.megatron.vocabulary = 1352;
    refuse(&other, "wood.bin: token 1352 is 1352, but the vocabulary has 1352 ids");
    other = settings;
    other.megatron.tokenizer = "words";
    refuse(&other, "words");
    other = settings;
    other.window = 16;
    other.megatron.ordered = true;
    refuse(&other, "key data.window = 16: data.order");
    other = settings;
    other.stores = two;
    refuse(&other, "has plain ids tokens, but");
    other.stores = store;
    other.megatron.ordered = true;
    refuse(&other, "is a token store, but only Megatron data sets");
    other = settings;
    other.megatron.ordered = true;
    other.megatron.samples = (int64_t)1 << 32;
    refuse(&other, "must be below 2^32 - 1");
    other.seed = (uint64_t)1 << 32;
    refuse(&other, "must be below 2^32 with");
    snprintf(two, sizeof two, "%s, %s", path, path);
    other = settings;
    other.stores = "0.3 wood  7 /a/stone";
    refuse(&other, "is a blend in Megatron-LM's form; write data.train = \"wood, /a/stone\" and data.weights = "
                   "\"0.3, 7\"");
    other = settings;
    other.megatron.ordered = true;
    other.stores = two;
    other.megatron.samples = 1000;
    refuse(&other, "uses each data set once");
    other = settings;
    other.row_tokens = other.window = 4096;
    refuse(&other, "too few for a sample of 4096 tokens and the token after it");
    other.megatron.ordered = true;
    refuse(&other, "too few for a sample of 4096 tokens and the token after it");
}

int main(int count, char **arguments)
{
    char folder[TEXT];
    const char *source = getenv("abs_top_srcdir");
    snprintf(folder, sizeof folder, "%s/tests/golden/megatron", source != NULL ? source : "..");
    stores_begin();
    world = comm_self();
    check_expected(count > 1 ? arguments[1] : folder);
    if (count == 1) {
        test_shuffle();
        check_written(folder, "wood", 1 << 20);
        check_written(folder, "wood", 65500);
        check_written(folder, "iron", 65499);
        test_prepare();
        test_refusals(folder);
        test_parts(folder);
        test_own_order(folder);
        test_settings(folder);
    }
    comm_destroy(world);
    stores_end();
    return check_end();
}
