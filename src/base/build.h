/* Identifies the build of the running program. */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

enum { BUILD_ID_BYTES = 41 };

/* Writes the GNU build ID of the running program into id, as hexadecimal digits; "" if the linker wrote none. It is a
 * hash of what was linked: two builds have the same ID only if they are identical. Local. Format: the note
 * NT_GNU_BUILD_ID of ELF programs (elf(5)). */
void build_id(char id[BUILD_ID_BYTES]);

#endif
