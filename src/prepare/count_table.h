/* How often each symbol follows the symbols before it, for contexts of 0 to `order` symbols. A table is an array where
 * all contexts fit into half a gigabyte, else a hash table of those that occur. */
#ifndef PREPARE_COUNT_TABLE_H
#define PREPARE_COUNT_TABLE_H

#include <stdint.h>

struct count_table;

/* Returns the highest order for this number of symbols: that of an array, or for more than 256 symbols, of which only
 * those that occur take memory, that whose contexts have a key. */
int count_table_max_order(int64_t symbols);

/* Makes a table of zeros. `order` is at most count_table_max_order. */
struct count_table *count_table_open(int64_t symbols, int order);
/* Accepts NULL. */
void count_table_close(struct count_table *table);

/* Appends a symbol to a context, of which the last `order` symbols are kept. The empty context is 0. */
uint64_t count_table_extend(const struct count_table *table, uint64_t context, int64_t symbol);

/* Counts a symbol after the `length` symbols of `context`, at most `order`, and after each shorter end of it. */
void count_table_add(struct count_table *table, int length, uint64_t context, int64_t symbol);
/* Return the number of times that the symbol, or any symbol, followed these `length` symbols. */
int64_t count_table_get(const struct count_table *table, int length, uint64_t context, int64_t symbol);
int64_t count_table_total(const struct count_table *table, int length, uint64_t context);

#endif
