/* Writes isal_vectors.txt: parity as Intel ISA-L computes it, with ISA-L's own matrix and ISA-L's own arithmetic.
 *
 *   cc isal_vectors.c -lisal -o isal_vectors && ./isal_vectors > isal_vectors.txt
 *
 * Byte i of data chunk j is the top byte of the 32-bit product (1000003 * j + i + 1) * 2654435761. */
#include <isa-l/erasure_code.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void write_vector(int k, int m, int bytes)
{
    unsigned char *matrix = malloc((k + m) * k), *tables = malloc(32 * k * m);
    unsigned char *data[255], *parity[255];
    for (int j = 0; j < k; j++) {
        data[j] = malloc(bytes);
        for (int i = 0; i < bytes; i++)
            data[j][i] = (uint32_t)((1000003u * j + i + 1) * 2654435761u) >> 24;
    }
    for (int i = 0; i < m; i++)
        parity[i] = malloc(bytes);
    gf_gen_cauchy1_matrix(matrix, k + m, k);
    ec_init_tables(k, m, matrix + k * k, tables);
    ec_encode_data(bytes, k, m, tables, data, parity);
    for (int i = 0; i < m; i++) {
        printf("rs(%d,%d) %d ", k, m, k + i);
        for (int b = 0; b < bytes; b++)
            printf("%02x", parity[i][b]);
        printf("\n");
    }
}

int main(void)
{
    write_vector(2, 1, 64);
    write_vector(3, 2, 64);
    write_vector(4, 2, 64);
    write_vector(6, 3, 96);
    write_vector(10, 4, 77);
    write_vector(200, 55, 33);
    return 0;
}
