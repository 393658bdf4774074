/* Token stores become windows: their number, lengths and places, the side file that keeps them, the order in which they
 * come, and damage of both. */
#include "base/thread.h"
#include "data/shuffle.h"
#include "data/token_store.h"
#include "data/windows.h"
#include "data_files.h"
#include "signalling.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Fields, not bytes: what pads the struct is anything. */
static bool same_window(const struct token_window *a, const struct token_window *b)
{
    return a->number == b->number && a->sequence == b->sequence && a->start == b->start && a->length == b->length &&
           a->has_bos == b->has_bos && a->has_eos == b->has_eos && a->followed == b->followed;
}

/* All windows of one sequence follow the rule by which they are counted. */
static void check_walk(const struct store_windows *windows, const struct windows_layout *layout)
{
    const int64_t count = windows->index.header.windows;
    int64_t tokens = 0, sequence = -1, end = 0, wrong = 0;
    int64_t *backwards = memory_allocate((count + 1) * (int64_t)sizeof *backwards);
    struct token_window *all = memory_allocate((count + 1) * (int64_t)sizeof *all);
    for (int64_t w = 0; w < count; w++)
        backwards[w] = count - 1 - w;
    windows_locate(windows, backwards, count, all);
    for (int64_t w = 0; w < count; w++) {
        struct token_window window;
        windows_locate(windows, &w, 1, &window);
        wrong += !same_window(&window, &all[count - 1 - w]); /* alone as among others */
        int64_t begin = token_store_offset(windows->index.store, window.sequence);
        int64_t stop = token_store_offset(windows->index.store, window.sequence + 1);
        tokens += window_length(&window);
        wrong += window_length(&window) > layout->window || window.start + window.length > stop;
        bool first = window.sequence != sequence, whole = window.start + window.length == stop;
        bool last = whole && (window.has_eos || layout->no_eos);
        wrong += first && window.start != begin;
        wrong += first && end != (sequence < 0 ? 0 : token_store_offset(windows->index.store, sequence + 1));
        wrong += !first && window.start != end - layout->overlap && layout->overlap <= window.length;
        wrong += window.has_bos != (!layout->no_bos && (first || layout->mode != WINDOWS_ENDS));
        wrong += window.has_eos && (layout->no_eos || (layout->mode == WINDOWS_ENDS && !whole));
        wrong += layout->mode != WINDOWS_ENDS && window.has_eos == layout->no_eos;
        wrong += !last && window_length(&window) != layout->window;
        sequence = window.sequence;
        end = window.start + window.length;
    }
    memory_free(backwards);
    memory_free(all);
    CHECK(wrong == 0);
    CHECK(tokens == windows->index.header.tokens);
}

static void test_windows(void)
{
    static const int64_t golden[][4] = {{3000, 1000, 800, 12}, {10000, 1000, 800, 47}, {10000, 1000, 500, 20},
                                        {50000, 8192, 200, 7}, {8, 7, 4, 4},           {400, 1000, 200, 1},
                                        {0, 1000, 200, 0}};
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        struct windows_layout layout = {golden[i][1], golden[i][2], WINDOWS_EACH, false, false};
        CHECK(windows_count(&layout, golden[i][0]) == golden[i][3]);
    }
    CHECK(windows_tokens(&(struct windows_layout){1000, 200, WINDOWS_EACH, false, false}, 400) == 402);
    /* Llama's tokenizer adds BOS alone: 1 of 8192 tokens a window */
    struct windows_layout text = {8192, 0, WINDOWS_EACH, .no_eos = true};
    CHECK(windows_count(&text, 8191) == 1 && windows_count(&text, 8192) == 2 && windows_tokens(&text, 8192) == 8194);
    /* truncation: one window, of at most 1022 residues */
    static const int64_t lengths[][2] = {{0, 0}, {1, 3}, {1021, 1023}, {1022, 1024}, {1023, 1024}, {50000, 1024}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct windows_layout first = {1024, 0, WINDOWS_FIRST, false, false};
        CHECK(windows_count(&first, lengths[i][0]) == (lengths[i][0] > 0));
        CHECK(windows_tokens(&first, lengths[i][0]) == lengths[i][1]);
    }
    CHECK_USER(windows_check_layout(&(struct windows_layout){1024, 1, WINDOWS_FIRST, false, false}), "data.truncate");

    struct comm *world = comm_self();
    const char *path = stores_path("periodic.h5");
    char *sequences[STORES_PERIODIC + 3];
    stores_periodic(sequences);
    stores_write(path, sequences, STORES_PERIODIC);
    struct token_store *store;
    struct store_windows *windows;
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    struct windows_layout layout = {256, 200, WINDOWS_EACH, false, false};
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE);
    static const int64_t each[STORES_PERIODIC] = {19, 30, 41, 52, 89};
    for (int i = 0; i < STORES_PERIODIC; i++)
        CHECK((int64_t)(windows->index.first[i + 1] - windows->index.first[i]) == each[i]);
    CHECK(windows->index.header.windows == 231 && windows->index.header.tokens == 59062);
    windows_close(windows);
    layout = (struct windows_layout){1024, 200, WINDOWS_EACH, false, false};
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE);
    CHECK(windows->index.header.windows == 17 && windows->index.header.tokens == 15834 && windows->index.map != NULL);
    windows_close(windows);

    /* a side file of another store, a truncated one and a foreign one are rewritten */
    const char *side = stores_path("periodic.h5.windows-1024-200-each");
    struct stat made, again;
    CHECK(stat(side, &made) == 0);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && stat(side, &again) == 0);
    CHECK(made.st_ino == again.st_ino && made.st_mtim.tv_nsec == again.st_mtim.tv_nsec);
    windows_close(windows);
    CHECK(truncate(side, 90) == 0);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->index.header.windows == 17);
    windows_close(windows);
    token_store_close(store);
    /* a new store with sequences of 0 tokens and of 1 */
    sequences[5] = memory_string("");
    sequences[6] = memory_string("A");
    sequences[7] = memory_string("");
    stores_write(path, sequences, STORES_PERIODIC + 3);
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->index.header.windows == 18);
    CHECK(windows->index.map != NULL);
    windows_close(windows);
    static const int64_t shapes[][2] = {{4, 0}, {4, 1}, {7, 4}, {16, 0}, {61, 13}, {1202, 0}, {6000, 5000}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int which = 0; which < 8; which++) {
            layout = (struct windows_layout){shapes[i][0], shapes[i][1], which & 1 ? WINDOWS_ENDS : WINDOWS_EACH,
                                             which & 2, which & 4};
            const struct windows_layout again =
                windows_layout_from(layout.window, layout.overlap, windows_code(&layout));
            CHECK(again.mode == layout.mode && again.no_bos == layout.no_bos && again.no_eos == layout.no_eos);
            CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE);
            check_walk(windows, &layout);
            windows_close(windows);
        }
    /* where the side file cannot be had, here because a folder has its name, a table in memory serves */
    layout = (struct windows_layout){1000, 300, WINDOWS_EACH, false, false};
    CHECK(mkdir(stores_path("periodic.h5.windows-1000-300-each"), 0700) == 0);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->index.table != NULL);
    check_walk(windows, &layout);
    windows_close(windows);
    token_store_close(store);
    stores_free(sequences, STORES_PERIODIC + 3);
    comm_destroy(world);
}

/* Changes 8 bytes of a file, late enough for its time of change to move. */
static void add_one(const char *path, off_t place)
{
    int64_t value = 0;
    usleep(20000);
    int file = open(path, O_RDWR);
    CHECK(file >= 0 && pread(file, &value, sizeof value, place) == sizeof value);
    value++;
    CHECK(pwrite(file, &value, sizeof value, place) == sizeof value && close(file) == 0);
}

static off_t place_of(const struct token_store *store, const void *data)
{
    return (const unsigned char *)data - store->map->data;
}

/* The message of windows_open, as comm_agree prints it. */
static void refused_windows(const char *path, const struct windows_layout *layout, const char *words)
{
    struct comm *world = comm_self();
    struct token_store *store;
    struct store_windows *windows;
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    CHECK_USER(token_store_verify(store), words);
    CHECK(windows_open(&windows, store, layout, world) == ERROR_USER && windows == NULL);
    token_store_close(store);
    comm_destroy(world);
}

/* A damaged side file is read as it was written, rewritten, or refused. */
static void test_damage(void)
{
    const struct windows_layout layout = {100, 10, WINDOWS_EACH, false, false};
    const char *path = stores_path("damage.h5"), *side = stores_path("damage.h5.windows-100-10-each");
    struct comm *world = comm_self();
    struct token_store *store;
    struct store_windows *windows;
    stores_write_periodic(path);
    CHECK(token_store_open(&store, path) == ERROR_NONE && token_store_verify(store) == ERROR_NONE);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->index.map != NULL);
    const struct windows_header made = windows->index.header;
    windows_close(windows);
    /* each number of the header, and each entry, but for one off by one in both of a pair */
    for (off_t place = 0; place < (off_t)sizeof made + (STORES_PERIODIC + 1) * 8; place += 8) {
        struct stat before, after;
        add_one(side, place);
        CHECK(stat(side, &before) == 0);
        CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->index.map != NULL);
        CHECK(stat(side, &after) == 0 && before.st_ino != after.st_ino); /* it was made again */
        CHECK(memcmp(&windows->index.header, &made, sizeof made) == 0);
        check_walk(windows, &layout);
        windows_close(windows);
    }
    /* what a killed maker left goes; what a living one holds is waited for */
    const char *left = stores_path("damage.h5.windows-100-10-each.tmp");
    write_file(left, "wb", "half", 4);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && access(left, F_OK) != 0);
    windows_close(windows);
    CHECK(unlink(side) == 0);
    write_file(left, "wb", "a longer half of an index", 25);
    const char *earlier = stores_path("damage.h5.windows-100-10-each.tmp-4711"); /* of an earlier build */
    write_file(earlier, "wb", "half", 4);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->index.map != NULL);
    CHECK(access(left, F_OK) != 0 && access(earlier, F_OK) != 0);
    windows_close(windows);
    CHECK(unlink(side) == 0 && symlink(path, left) == 0); /* nothing is written through a link */
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->index.table != NULL);
    check_walk(windows, &layout);
    windows_close(windows);
    CHECK(unlink(left) == 0 && token_store_verify(store) == ERROR_NONE);
    int held[2];
    char byte;
    CHECK(pipe(held) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int file = open(left, O_RDWR | O_CREAT, 0600);
        if (file < 0 || fcntl(file, F_OFD_SETLK, &whole) != 0 || write(held[1], "", 1) != 1)
            _exit(1);
        usleep(400000);
        _exit(0); /* as one that is killed */
    }
    close(held[1]);
    CHECK(read(held[0], &byte, 1) == 1); /* 0 where the child failed */
    close(held[0]);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->index.map != NULL);
    CHECK(waitpid(child, NULL, WNOHANG) == child);
    windows_close(windows);

    const off_t tokens = place_of(store, store->tokens), offsets = place_of(store, store->offsets),
                names = place_of(store, store->names);
    token_store_close(store);
    /* the index is good for the very file that it was made of, whose digests were compared then */
    add_one(path, tokens + 800);
    refused_windows(path, &layout, "its tokens differ from those written");
    stores_write_periodic(path);
    add_one(path, offsets + 16);
    refused_windows(path, &layout, "its offsets differ from those written");
    stores_write_periodic(path);
    add_one(path, names + 3);
    refused_windows(path, &layout, "its names differ from those written");
    stores_write_periodic(path);
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->index.map != NULL);
    windows_close(windows);
    token_store_close(store);
    comm_destroy(world);
}

static void *read_some(void *store)
{
    int32_t tokens[10];
    token_store_read(store, 5000, 10, tokens);
    return NULL;
}

/* A store that is cut short while it is read ends the program with a message, not by a signal: also where a thread
 * reads it, as a loader's does. */
static void test_cut(bool by_thread)
{
    const char *path = stores_path("cut.h5");
    char said[400] = "", wanted[500];
    int ends[2], status = 0;
    stores_write_periodic(path);
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct token_store *store;
        CHECK(dup2(ends[1], STDERR_FILENO) >= 0 && token_store_open(&store, path) == ERROR_NONE);
        CHECK(truncate(path, 0) == 0);
        if (by_thread)
            pthread_join(thread_start(read_some, store, "a test"), NULL);
        else
            read_some(store);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got, all = 0; (got = read(ends[0], said + all, sizeof said - 1 - (size_t)all)) > 0;)
        all += got;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == ERROR_ENVIRONMENT);
    snprintf(wanted, sizeof wanted, "cistron: rank 0: %s: cannot be read any more: it was truncated", path);
    CHECK(strncmp(said, wanted, strlen(wanted)) == 0);
}

static void test_shuffle(void)
{
    static const int64_t counts[] = {1, 2, 3, 4, 5, 7, 8, 13, 64, 97, 127, 128, 129, 1000, 4096, 10007, 65536, 65537};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t count = counts[i], repeated = 0, fixed = 0, moved = 0;
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            char *seen = memory_allocate(count);
            struct index_shuffle shuffle = shuffle_create(count, 11, epoch),
                                 next = shuffle_create(count, 11, epoch + 1);
            for (int64_t k = 0; k < count; k++) {
                int64_t at = shuffle_at(&shuffle, k);
                repeated += at < 0 || at >= count || seen[at]++ != 0;
                fixed += at == k;
                moved += at != shuffle_at(&next, k);
            }
            memory_free(seen);
        }
        CHECK(repeated == 0);
        if (count >= 64) {
            CHECK(moved > 3 * count * 9 / 10); /* epochs differ nearly everywhere */
            CHECK(fixed < 30);                 /* about 1 expected in each epoch */
        }
    }
    /* beyond 32 bits it still lands inside and comes back nowhere twice in a sample */
    struct index_shuffle large = shuffle_create((int64_t)1 << 40, 1, 0);
    int64_t low = 0;
    for (int64_t k = 0; k < 1000; k++)
        low += shuffle_at(&large, k) < (int64_t)1 << 39;
    CHECK(low > 400 && low < 600);
    /* places 0 and 1 are uniform over epochs and independent: chi square of 10 and of 90 cells, bounds at p = 1e-6 */
    enum { N = 10, EPOCHS = 9000 };
    double pairs[N * N] = {0}, single[N] = {0}, chi_single = 0, chi_pairs = 0;
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        struct index_shuffle shuffle = shuffle_create(N, 3, epoch);
        int64_t a = shuffle_at(&shuffle, 0), b = shuffle_at(&shuffle, 1);
        single[a]++;
        pairs[a * N + b]++;
    }
    for (int a = 0; a < N; a++) {
        chi_single += pow(single[a] - EPOCHS / N, 2) / (EPOCHS / N);
        for (int b = 0; b < N; b++)
            chi_pairs += a == b ? 0 : pow(pairs[a * N + b] - EPOCHS / 90, 2) / (EPOCHS / 90);
    }
    printf("shuffle: chi square %.1f of 9, %.1f of 89 degrees of freedom\n", chi_single, chi_pairs);
    CHECK(chi_single < 45);
    CHECK(chi_pairs < 165);
}

/* Flags stand for good, so this comes last. */
static void test_signals(void)
{
    signals_catch();
    CHECK(signals_pending() == SIGNALS_NONE && !signals_take_save() && !signals_stopping());
    signal_send(SIGUSR2, SIGNALS_SAVE);
    CHECK(signals_pending() == SIGNALS_SAVE && !signals_stopping());
    CHECK(signals_take_save() && !signals_take_save());

    /* counting windows goes on through a request to save, ends at one to stop, and leaves nothing */
    enum { SEQUENCES = 70000 };
    const char *path = stores_path("many.h5");
    static char *sequences[SEQUENCES], bases[] = "ACGT";
    for (int i = 0; i < SEQUENCES; i++)
        sequences[i] = bases;
    stores_write(path, sequences, SEQUENCES);
    struct comm *self = comm_self();
    struct token_store *store;
    struct store_windows *windows;
    const struct windows_layout layouts[] = {{64, 0, WINDOWS_EACH, false, false}, {64, 1, WINDOWS_EACH, false, false}};
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    signal_send(SIGUSR2, SIGNALS_SAVE);
    CHECK(windows_open(&windows, store, &layouts[0], self) == ERROR_NONE);
    windows_close(windows);
    signal_send(SIGUSR1, SIGNALS_STOP);
    CHECK(signals_stopping() && signals_pending() == (SIGNALS_STOP | SIGNALS_SAVE));
    int before = files_in_folder();
    CHECK(windows_open(&windows, store, &layouts[1], self) == ERROR_REQUEUE && windows == NULL);
    CHECK(files_in_folder() == before);
    CHECK(windows_open(&windows, store, &layouts[0], self) == ERROR_NONE); /* nothing to count */
    windows_close(windows);
    token_store_close(store);
    comm_destroy(self);
}

int main(void)
{
    stores_begin();
    test_windows();
    test_damage();
    test_cut(false);
    test_cut(true);
    test_shuffle();
    test_signals();
    stores_end();
    return check_end();
}
