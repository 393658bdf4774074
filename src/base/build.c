#include "base/build.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static size_t padded(size_t bytes)
{
    return (bytes + 3) / 4 * 4;
}

/* Copies the build ID if it is among the notes of a segment. */
static void search_notes(const char *at, const char *end, char id[BUILD_ID_BYTES])
{
    ElfW(Nhdr) note;
    for (; at + sizeof note <= end; at += sizeof note + padded(note.n_namesz) + padded(note.n_descsz)) {
        memcpy(&note, at, sizeof note);
        const char *name = at + sizeof note;
        const unsigned char *bytes = (const unsigned char *)name + padded(note.n_namesz);
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof "GNU" || memcmp(name, "GNU", sizeof "GNU") != 0)
            continue;
        for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < BUILD_ID_BYTES; i++)
            snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* Searches only the first object, which is the program itself; its libraries follow. */
static int search_program(struct dl_phdr_info *info, size_t size, void *id)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const char *start = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            search_notes(start, start + info->dlpi_phdr[i].p_memsz, id);
    }
    return 1;
}

void build_id(char id[BUILD_ID_BYTES])
{
    memset(id, 0, BUILD_ID_BYTES);
    dl_iterate_phdr(search_program, id);
}
