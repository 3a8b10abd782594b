// Prints golden parity of klauspost/reedsolomon, whose default matrix is Backblaze's: one line per parity chunk, code, chunk
// index, bytes in hexadecimal. Data: byte i of chunk c is the top byte of (1000003 c + i + 1) * 2654435761 modulo 2^32.
package main

import (
	"encoding/hex"
	"fmt"

	"github.com/klauspost/reedsolomon"
)

func main() {
	for _, size := range [][2]int{{2, 1}, {3, 2}, {4, 2}, {6, 3}, {10, 4}, {12, 4}, {17, 3}, {50, 20}} {
		k, m := size[0], size[1]
		encoder, err := reedsolomon.New(k, m)
		if err != nil {
			panic(err)
		}
		chunks := make([][]byte, k+m)
		for c := range chunks {
			chunks[c] = make([]byte, 65)
			if c < k {
				for i := range chunks[c] {
					seed := uint32(1000003)*uint32(c) + uint32(i+1)
					chunks[c][i] = byte((seed * 2654435761) >> 24)
				}
			}
		}
		if err := encoder.Encode(chunks); err != nil {
			panic(err)
		}
		for c := k; c < k+m; c++ {
			fmt.Printf("rs-vandermonde(%d,%d) %d %s\n", k, m, c, hex.EncodeToString(chunks[c]))
		}
	}
}
