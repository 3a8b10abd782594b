/*
 * Loses a chunk of a stripe and repairs it: what to read first of suture.h.
 *
 *     cargo build --release -p suture-ffi
 *     cc -std=c99 -I crates/suture-ffi/include crates/suture-ffi/examples/repair.c \
 *        target/release/libsuture_ffi.a -lpthread -ldl -lm -o repair
 *     ./repair 'clay(4,2,5)'
 */
#include "suture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS_MAX 255

static void check(suture_status status) {
    if (status != SUTURE_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", suture_status_text(status), suture_last_error());
        exit(1);
    }
}

static uint8_t *allocate(size_t length) {
    uint8_t *bytes = malloc(length);
    if (bytes == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", length);
        exit(1);
    }
    return bytes;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "clay(4,2,5)";
    suture_code *code;
    suture_sizes sizes;
    check(suture_open(name, &code));
    check(suture_get_sizes(code, &sizes));
    size_t chunk_count = sizes.data_chunks + sizes.parity_chunks;
    printf("%s: %zu data and %zu parity chunks, each cut into %zu sub-chunks\n", name,
           sizes.data_chunks, sizes.parity_chunks, sizes.sub_chunk_count);

    /* A stripe of chunks of one unit each. Here they lie in memory; yours lie on many machines. */
    size_t chunk_bytes = 64 * sizes.alignment;
    size_t sub_chunk_bytes = chunk_bytes / sizes.sub_chunk_count;
    uint8_t *chunks[CHUNKS_MAX];
    const uint8_t *data[CHUNKS_MAX];
    for (size_t i = 0; i < chunk_count; i++) {
        data[i] = chunks[i] = allocate(chunk_bytes);
        for (size_t at = 0; i < sizes.data_chunks && at < chunk_bytes; at++) {
            chunks[i][at] = (uint8_t)rand();
        }
    }
    check(suture_encode(code, data, chunks + sizes.data_chunks, chunk_bytes, 0));

    /* Chunk 1 is lost. What is to be read? */
    uint32_t lost = 1, available[CHUNKS_MAX];
    size_t available_count = 0;
    for (uint32_t chunk = 0; chunk < chunk_count; chunk++) {
        if (chunk != lost) {
            available[available_count++] = chunk;
        }
    }
    size_t read_count = 0;
    suture_status status = suture_repair_reads(code, &lost, 1, available, available_count,
                                               SUTURE_PLAIN_READS, NULL, &read_count);
    if (status != SUTURE_STATUS_TOO_SMALL) { /* an answer that fits no room is the only success */
        check(status);
    }
    suture_read *reads = (suture_read *)allocate(read_count * sizeof *reads);
    check(suture_repair_reads(code, &lost, 1, available, available_count, SUTURE_PLAIN_READS,
                              reads, &read_count));
    printf("chunk %u is lost; its repair reads\n", (unsigned)lost);

    /* Each helper's runs go into one buffer, one after the other. */
    suture_input helpers[CHUNKS_MAX];
    size_t helper_count = 0, read_bytes = 0;
    for (size_t i = 0; i < read_count;) {
        uint32_t chunk = reads[i].chunk;
        uint8_t *packed = allocate(chunk_bytes);
        size_t length = 0;
        printf("  of chunk %u, sub-chunks", (unsigned)chunk);
        for (; i < read_count && reads[i].chunk == chunk; i++) {
            size_t run_bytes = reads[i].count * sub_chunk_bytes;
            memcpy(packed + length, chunks[chunk] + reads[i].first * sub_chunk_bytes, run_bytes);
            length += run_bytes;
            printf(" %u", (unsigned)reads[i].first);
            if (reads[i].count > 1) {
                printf("-%u", (unsigned)(reads[i].first + reads[i].count - 1));
            }
        }
        printf("\n");
        helpers[helper_count].chunk = chunk;
        helpers[helper_count].bytes = packed;
        helpers[helper_count].length = length;
        helper_count++;
        read_bytes += length;
    }

    suture_output rebuilt;
    rebuilt.chunk = lost;
    rebuilt.bytes = allocate(chunk_bytes);
    rebuilt.length = chunk_bytes;
    check(suture_repair(code, helpers, helper_count, &rebuilt, 1, 0));

    int is_same = memcmp(rebuilt.bytes, chunks[lost], chunk_bytes) == 0;
    printf("%zu bytes read for %zu rebuilt: %.2f chunks, where decoding reads %zu\n", read_bytes,
           chunk_bytes, (double)read_bytes / (double)chunk_bytes, sizes.data_chunks);
    printf("the rebuilt chunk %s\n", is_same ? "is the lost one, byte for byte" : "IS WRONG");

    for (size_t i = 0; i < helper_count; i++) {
        free((void *)helpers[i].bytes);
    }
    for (size_t i = 0; i < chunk_count; i++) {
        free(chunks[i]);
    }
    free(reads);
    free(rebuilt.bytes);
    suture_close(code);
    return is_same ? 0 : 1;
}
