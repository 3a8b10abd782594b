/*
 * Every code through the C ABI, as a program in C uses it: encode, lose every chunk and every pair
 * of chunks, decode from whole chunks, repair from nothing but what was asked for, compare. Then
 * every way of calling it wrongly.
 */
#include "suture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS_MAX 16
#define UNITS 3

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n  (%s)\n", __FILE__, __LINE__, #condition,         \
                    suture_last_error());                                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

typedef struct stripe {
    suture_code *code;
    suture_sizes sizes;
    size_t chunk_count, unit_bytes, chunk_bytes;
    uint8_t *chunks[CHUNKS_MAX];
} stripe;

/* Exactly as long as asked, so that the address sanitizer sees the first byte beyond. */
static uint8_t *allocate(size_t length) {
    uint8_t *bytes = malloc(length);
    CHECK(bytes != NULL);
    memset(bytes, 0xee, length);
    return bytes;
}

static void fill(uint8_t *bytes, size_t length, uint32_t seed) {
    for (size_t i = 0; i < length; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

static stripe encode(const char *name) {
    stripe s;
    memset(&s, 0, sizeof s);
    CHECK(suture_open(name, &s.code) == SUTURE_STATUS_OK);
    CHECK(suture_get_sizes(s.code, &s.sizes) == SUTURE_STATUS_OK);
    s.chunk_count = s.sizes.data_chunks + s.sizes.parity_chunks;
    s.unit_bytes = 2 * s.sizes.alignment;
    s.chunk_bytes = UNITS * s.unit_bytes;
    CHECK(s.chunk_count <= CHUNKS_MAX && s.sizes.loss_tolerance >= 2);
    const uint8_t *data[CHUNKS_MAX];
    for (size_t i = 0; i < s.chunk_count; i++) {
        s.chunks[i] = allocate(s.chunk_bytes);
        if (i < s.sizes.data_chunks) {
            fill(s.chunks[i], s.chunk_bytes, (uint32_t)i + 1);
        }
        data[i] = s.chunks[i];
    }
    CHECK(suture_encode(s.code, data, s.chunks + s.sizes.data_chunks, s.chunk_bytes,
                        s.unit_bytes) == SUTURE_STATUS_OK);
    return s;
}

static void discard(stripe *s) {
    for (size_t i = 0; i < s->chunk_count; i++) {
        free(s->chunks[i]);
    }
    suture_close(s->code);
}

static void compare_and_free(const stripe *s, suture_output *lost, size_t lost_count) {
    for (size_t i = 0; i < lost_count; i++) {
        CHECK(memcmp(lost[i].bytes, s->chunks[lost[i].chunk], s->chunk_bytes) == 0);
        free(lost[i].bytes);
    }
}

static void make_room(const stripe *s, suture_output *out, const uint32_t *lost, size_t count) {
    for (size_t i = 0; i < count; i++) {
        out[i].chunk = lost[i];
        out[i].bytes = allocate(s->chunk_bytes);
        out[i].length = s->chunk_bytes;
    }
}

static size_t survivors(const stripe *s, const uint32_t *lost, size_t lost_count, uint32_t *out) {
    size_t count = 0;
    for (uint32_t chunk = 0; chunk < s->chunk_count; chunk++) {
        if (chunk != lost[0] && (lost_count < 2 || chunk != lost[1])) {
            out[count++] = chunk;
        }
    }
    return count;
}

static void decode(const stripe *s, const uint32_t *lost, size_t lost_count) {
    uint32_t available[CHUNKS_MAX];
    suture_input inputs[CHUNKS_MAX];
    suture_output outputs[2];
    size_t count = survivors(s, lost, lost_count, available);
    for (size_t i = 0; i < count; i++) {
        inputs[i].chunk = available[i];
        inputs[i].bytes = s->chunks[available[i]];
        inputs[i].length = s->chunk_bytes;
    }
    make_room(s, outputs, lost, lost_count);
    CHECK(suture_decode(s->code, inputs, count, outputs, lost_count, s->unit_bytes) ==
          SUTURE_STATUS_OK);
    compare_and_free(s, outputs, lost_count);
}

/* Reads the runs of one chunk into a buffer of their own; returns how many of `reads` it took. */
static size_t pack(const stripe *s, const suture_read *reads, size_t read_count,
                   suture_input *input) {
    size_t sub_chunk_bytes = s->unit_bytes / s->sizes.sub_chunk_count;
    size_t taken = 0, sub_chunks = 0, at = 0;
    while (taken < read_count && reads[taken].chunk == reads[0].chunk) {
        sub_chunks += reads[taken++].count;
    }
    uint8_t *packed = allocate(UNITS * sub_chunks * sub_chunk_bytes);
    for (size_t unit = 0; unit < UNITS; unit++) {
        for (size_t i = 0; i < taken; i++) {
            size_t from = unit * s->unit_bytes + reads[i].first * sub_chunk_bytes;
            size_t length = reads[i].count * sub_chunk_bytes;
            CHECK(reads[i].count > 0 &&
                  reads[i].first + reads[i].count <= s->sizes.sub_chunk_count);
            memcpy(packed + at, s->chunks[reads[0].chunk] + from, length);
            at += length;
        }
    }
    input->chunk = reads[0].chunk;
    input->bytes = packed;
    input->length = at;
    return taken;
}

/* Returns how many bytes the helpers read. */
static size_t repair(const stripe *s, const uint32_t *lost, size_t lost_count, uint32_t flags) {
    uint32_t available[CHUNKS_MAX];
    size_t count = survivors(s, lost, lost_count, available);
    size_t read_count = 0, helper_count = 0, total = 0;
    CHECK(suture_repair_reads(s->code, lost, lost_count, available, count, flags, NULL,
                              &read_count) == SUTURE_STATUS_TOO_SMALL);
    suture_read *reads = malloc(read_count * sizeof *reads);
    CHECK(suture_repair_reads(s->code, lost, lost_count, available, count, flags, reads,
                              &read_count) == SUTURE_STATUS_OK);
    suture_input helpers[CHUNKS_MAX];
    for (size_t at = 0; at < read_count; helper_count++) {
        at += pack(s, reads + at, read_count - at, &helpers[helper_count]);
        total += helpers[helper_count].length;
        CHECK(!(flags & SUTURE_PLAIN_READS) || helpers[helper_count].length == helpers[0].length);
    }
    suture_output outputs[2];
    make_room(s, outputs, lost, lost_count);
    CHECK(suture_repair(s->code, helpers, helper_count, outputs, lost_count, s->unit_bytes) ==
          SUTURE_STATUS_OK);
    compare_and_free(s, outputs, lost_count);
    for (size_t i = 0; i < helper_count; i++) {
        free((void *)helpers[i].bytes);
    }
    free(reads);
    return total;
}

/* `cheap`: how many single losses are repaired from fewer bytes than k chunks have. */
static void lose_all_pairs(const char *name, size_t cheap) {
    stripe s = encode(name);
    size_t found = 0;
    for (uint32_t first = 0; first < s.chunk_count; first++) {
        size_t total = repair(&s, &first, 1, SUTURE_PLAIN_READS);
        CHECK(total <= s.sizes.data_chunks * s.chunk_bytes);
        found += total < s.sizes.data_chunks * s.chunk_bytes;
        repair(&s, &first, 1, 0);
        decode(&s, &first, 1);
        for (uint32_t second = 0; second < s.chunk_count; second++) {
            if (second != first) {
                uint32_t lost[2];
                lost[0] = first, lost[1] = second;
                repair(&s, lost, 2, SUTURE_PLAIN_READS);
                repair(&s, lost, 2, 0);
                decode(&s, lost, 2);
            }
        }
    }
    CHECK(found == cheap);
    printf("%s: every loss of one and of two chunks, decoded and repaired\n", name);
    discard(&s);
}

static void refuse_names(void) {
    static const char *const names[] = {
        "", "rs", "rs(6)", "rs(0,3)", "sr(6,3)", "rs(6,3", "lrc(7,2,2)", "butterfly(9)", "\xff(1,2)",
        "clay(4,2,7)", "rs(99999999999999999999,2)"};
    suture_code *code = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(suture_open(names[i], &code) == SUTURE_STATUS_BAD_NAME);
        CHECK(code == NULL && strlen(suture_last_error()) > 0);
    }
    CHECK(suture_open("raptor(6,3)", &code) == SUTURE_STATUS_BAD_NAME);
    CHECK(strstr(suture_last_error(), "there is no code \"raptor\"") != NULL);
    CHECK(suture_open(NULL, &code) == SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_open("rs(6,3)", NULL) == SUTURE_STATUS_BAD_POINTER);
    suture_close(NULL);
}

static void refuse_to_encode(stripe *s) {
    const uint8_t *data[4];
    uint8_t *parity[2];
    uint8_t *room[2];
    for (size_t i = 0; i < 4; i++) {
        data[i] = s->chunks[i];
    }
    for (size_t i = 0; i < 2; i++) {
        parity[i] = room[i] = allocate(s->chunk_bytes);
    }
    size_t n = s->chunk_bytes, u = s->unit_bytes;
    CHECK(suture_encode(NULL, data, parity, n, u) == SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_encode(s->code, NULL, parity, n, u) == SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_encode(s->code, data, NULL, n, u) == SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_encode(s->code, data, parity, 0, 0) == SUTURE_STATUS_BAD_LENGTH);
    CHECK(suture_encode(s->code, data, parity, n, u + 1) == SUTURE_STATUS_BAD_LENGTH);
    CHECK(suture_encode(s->code, data, parity, n - 1, 0) == SUTURE_STATUS_BAD_LENGTH);
    CHECK(suture_encode(s->code, data, parity, n, 2 * u) == SUTURE_STATUS_BAD_LENGTH);
    CHECK(suture_encode(s->code, data, parity, SIZE_MAX, 0) == SUTURE_STATUS_BAD_LENGTH);
    parity[1] = NULL;
    CHECK(suture_encode(s->code, data, parity, n, u) == SUTURE_STATUS_BAD_POINTER);
    parity[1] = room[0];
    CHECK(suture_encode(s->code, data, parity, n, u) == SUTURE_STATUS_OVERLAP);
    parity[1] = s->chunks[2];
    CHECK(suture_encode(s->code, data, parity, n, u) == SUTURE_STATUS_OVERLAP);
    for (size_t i = 0; i < 2; i++) {
        for (size_t at = 0; at < n; at++) {
            CHECK(room[i][at] == 0xee);
        }
        free(room[i]);
    }
}

static void refuse_to_decode(stripe *s) {
    suture_input in[5];
    suture_output out[3];
    uint32_t lost[3] = {0, 1, 2};
    make_room(s, out, lost, 3);
    for (uint32_t i = 0; i < 5; i++) {
        in[i].chunk = i + 1;
        in[i].bytes = s->chunks[i + 1];
        in[i].length = s->chunk_bytes;
    }
    size_t u = s->unit_bytes;
    CHECK(suture_decode(NULL, in, 5, out, 1, u) == SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_decode(s->code, NULL, 5, out, 1, u) == SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_decode(s->code, in, 5, NULL, 1, u) == SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_decode(s->code, in, SIZE_MAX, out, 1, u) == SUTURE_STATUS_BAD_CHUNK);
    CHECK(suture_decode(s->code, in, 5, out, 0, u) == SUTURE_STATUS_BAD_CHUNK);
    CHECK(suture_decode(s->code, in, 5, out, 2, u) == SUTURE_STATUS_BAD_CHUNK);
    CHECK(suture_decode(s->code, in + 2, 3, out, 3, u) == SUTURE_STATUS_TOO_FEW_CHUNKS);
    CHECK(suture_decode(s->code, NULL, 0, out, 1, u) == SUTURE_STATUS_TOO_FEW_CHUNKS);
    CHECK(suture_decode(s->code, in, 5, out, 1, u - 1) == SUTURE_STATUS_BAD_LENGTH);
    in[3].length--;
    CHECK(suture_decode(s->code, in, 5, out, 1, u) == SUTURE_STATUS_BAD_LENGTH);
    in[3].length++, out[1].length -= u;
    CHECK(suture_decode(s->code, in + 1, 4, out, 2, u) == SUTURE_STATUS_BAD_LENGTH);
    out[1].length += u, in[3].chunk = 6;
    CHECK(suture_decode(s->code, in, 5, out, 1, u) == SUTURE_STATUS_BAD_CHUNK);
    in[3].chunk = 256;
    CHECK(suture_decode(s->code, in, 5, out, 1, u) == SUTURE_STATUS_BAD_CHUNK);
    in[3].chunk = 5;
    CHECK(suture_decode(s->code, in, 5, out, 1, u) == SUTURE_STATUS_BAD_CHUNK);
    in[3].chunk = 4, in[3].bytes = NULL;
    CHECK(suture_decode(s->code, in, 5, out, 1, u) == SUTURE_STATUS_BAD_POINTER);
    in[3].bytes = out[0].bytes + 1, in[3].length = s->chunk_bytes;
    CHECK(suture_decode(s->code, in, 5, out, 1, u) == SUTURE_STATUS_OVERLAP);
    for (size_t i = 0; i < 3; i++) {
        for (size_t at = 0; at < s->chunk_bytes; at++) {
            CHECK(out[i].bytes[at] == 0xee);
        }
        free(out[i].bytes);
    }
}

static void refuse_to_repair(stripe *s) {
    uint32_t lost[3] = {0, 1, 2}, available[6] = {1, 2, 3, 4, 5, 1};
    suture_read reads[64];
    size_t count = 64;
    suture_code *c = s->code;
#define READS(lost_count, available_count, flags)                                                  \
    suture_repair_reads(c, lost, lost_count, available, available_count, flags, reads, &count)
    CHECK(READS(1, 5, 2) == SUTURE_STATUS_BAD_FLAGS);
    CHECK(READS(0, 5, 0) == SUTURE_STATUS_BAD_CHUNK);
    CHECK(READS(2, 5, 0) == SUTURE_STATUS_BAD_CHUNK);
    CHECK(READS(1, 6, 0) == SUTURE_STATUS_BAD_CHUNK);
    CHECK(READS(1, 3, 0) == SUTURE_STATUS_TOO_FEW_CHUNKS);
    CHECK(count == 64);
    CHECK(suture_repair_reads(c, lost, 1, available, 5, 0, NULL, &count) ==
          SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_repair_reads(c, lost, 1, available, 5, 0, reads, NULL) ==
          SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_repair_reads(c, NULL, 1, available, 5, 0, reads, &count) ==
          SUTURE_STATUS_BAD_POINTER);
    CHECK(READS(1, 5, 0) == SUTURE_STATUS_OK && count >= 5 && count < 64);
#undef READS

    /* One helper too many, one too few, and whole chunks where parts were asked for. */
    suture_input in[5];
    suture_output out[2];
    uint32_t both[2] = {0, 5};
    make_room(s, out, both, 2);
    for (uint32_t i = 0; i < 5; i++) {
        in[i].chunk = i + 1;
        in[i].bytes = s->chunks[i + 1];
        in[i].length = s->chunk_bytes;
    }
    CHECK(suture_repair(c, in, 5, out, 1, s->unit_bytes) == SUTURE_STATUS_BAD_LENGTH);
    CHECK(suture_repair(c, in, 3, out, 1, s->unit_bytes) == SUTURE_STATUS_TOO_FEW_CHUNKS);
    CHECK(suture_repair(c, in, 5, out, 2, s->unit_bytes) == SUTURE_STATUS_BAD_CHUNK);
    CHECK(suture_repair(c, NULL, 0, NULL, 0, s->unit_bytes) == SUTURE_STATUS_BAD_CHUNK);
    CHECK(suture_repair(c, in, 5, NULL, 0, s->unit_bytes) == SUTURE_STATUS_BAD_CHUNK);
    CHECK(suture_repair(c, NULL, 5, out, 1, s->unit_bytes) == SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_repair(NULL, in, 5, out, 1, s->unit_bytes) == SUTURE_STATUS_BAD_POINTER);
    suture_code *rs = NULL;
    CHECK(suture_open("rs(4,2)", &rs) == SUTURE_STATUS_OK);
    CHECK(suture_repair(rs, in, 5, out, 1, s->unit_bytes) == SUTURE_STATUS_TOO_MANY_HELPERS);
    suture_close(rs);
    for (size_t i = 0; i < 2; i++) {
        for (size_t at = 0; at < s->chunk_bytes; at++) {
            CHECK(out[i].bytes[at] == 0xee);
        }
        free(out[i].bytes);
    }
}

int main(void) {
    CHECK(suture_abi_version() == SUTURE_ABI_VERSION);
    CHECK(strcmp(suture_last_error(), "") == 0);
    CHECK(strcmp(suture_status_text(1), "unknown status") == 0);
    CHECK(strcmp(suture_status_text(SUTURE_STATUS_OK), "done") == 0);
    lose_all_pairs("rs(6,3)", 0);
    lose_all_pairs("rs-vandermonde(4,2)", 0);
    lose_all_pairs("lrc(6,2,2)", 8);
    lose_all_pairs("butterfly(4)", 5);
    lose_all_pairs("clay(4,2,5)", 6);
    refuse_names();
    stripe s = encode("clay(4,2,5)");
    refuse_to_encode(&s);
    refuse_to_decode(&s);
    refuse_to_repair(&s);
    suture_sizes sizes;
    CHECK(suture_get_sizes(NULL, &sizes) == SUTURE_STATUS_BAD_POINTER);
    CHECK(suture_get_sizes(s.code, NULL) == SUTURE_STATUS_BAD_POINTER);
    discard(&s);
    printf("every wrong call is refused, and nothing written\n");
    return 0;
}
